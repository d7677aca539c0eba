"""Raw requests to a Messages API server, for what the SDK would not send. Standard library only."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

HEADERS = {"authorization": "Bearer any", "anthropic-version": "2026-10-21", "content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers (names in lower case) and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The `error` object of Anthropic's error body."""
        said = json.loads(self.body)
        assert said["type"] == "error"
        error: dict[str, Any] = said["error"]
        return error


def call(
    url: str,
    body: Any = None,
    *,
    path: str = "/v1/messages",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own. `body`: bytes as they are, anything else as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request(method, path, raw, HEADERS if headers is None else headers)
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, response.read())
    finally:
        connection.close()


def ask(text: str = "hello", **more: Any) -> dict[str, Any]:
    """A valid request body."""
    base = {"model": "claude-sonnet-5-5", "max_tokens": 1000, "messages": [{"role": "user", "content": text}]}
    return {**base, **more}
