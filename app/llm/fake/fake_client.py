"""Talks to a running local Messages API server from another process. Standard library only."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from app.llm.fake.request_log import LoggedRequest


class FakeClient:
    """The methods of `FakeServer`, over HTTP.

    Args:
        url: base URL of the server.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # The server is on this machine: a proxy set in the environment must not see the call.
        self._opener = build_opener(ProxyHandler({}))

    def script(self, key: str, turns: Sequence[dict[str, Any]]) -> None:
        """Append turns to the script of `key`.

        Raises:
            ValueError: the server refused a turn.
        """
        self._call("POST", "scripts", {"key": key, "turns": list(turns)})

    def requests(self, key: str | None = None) -> list[LoggedRequest]:
        """What was asked, in order of arrival; of one key, or all."""
        query = f"?{urlencode({'key': key})}" if key is not None else ""
        return [LoggedRequest.from_json(raw) for raw in self._call("GET", f"requests{query}")["requests"]]

    def reset(self) -> None:
        """Forget scripts, log and cache."""
        self._call("POST", "reset", {})

    def is_healthy(self) -> bool:
        """Whether the server answers."""
        try:
            return bool(self._call("GET", "health")["status"] == "ok")
        except OSError:
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/_fake/{path}", data=data, method=method)
        try:
            with self._opener.open(request, timeout=10) as response:
                return json.load(response)
        except HTTPError as error:
            raise ValueError(json.load(error)["error"]["message"]) from error
