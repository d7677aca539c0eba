"""The API as the commands see it: JSON over HTTP, with the standard library only."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from app.cli.failure import Away, Failure, NotFound, WrongUsage

TIMEOUT_S = 10.0
_AWAY_STATUSES = (502, 503, 504)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body as sent (numbers exact), and parsed."""

    text: str
    data: Any


class ApiClient:
    """Speaks to one server.

    Args:
        url: such as http://127.0.0.1:8080.

    Raises:
        Failure: the URL is none.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WrongUsage(f"{url!r} is no http:// or https:// address")
        self.url = url.rstrip("/")
        # A proxy of the environment cannot reach this machine's own loopback.
        handlers = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, *path: str, **query: str | int | None) -> Answer:
        """GET; `path` in parts, query parameters that are None left out.

        Raises:
            Away: no answer, or 502 to 504.
            Failure: any other refusal.
        """
        return self._ask("GET", path, query={name: value for name, value in query.items() if value is not None})

    def post(self, *path: str, body: Any = None) -> Answer:
        """POST a JSON body. Raises as `get` does."""
        return self._ask("POST", path, body=body)

    def _ask(
        self, method: str, path: tuple[str, ...], *, query: dict[str, Any] | None = None, body: Any = None
    ) -> Answer:
        url = "/".join([self.url, *(quote(part, safe="") for part in path)])
        request = urllib.request.Request(f"{url}?{urlencode(query)}" if query else url, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read()) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Away(
                f"no answer from {self.url} ({reason}): is it up? `make up` starts it, --url says where it is"
            ) from error
        try:
            return Answer(text, json.loads(text))
        except ValueError as error:
            raise Failure(f"{self.url} answered with something that is no JSON") from error


def _refusal(status: int, body: bytes) -> Failure:
    try:
        problem = json.loads(body)
        said = "; ".join([str(problem["detail"]), *(_fault(fault) for fault in problem.get("errors", ()))])
    except (ValueError, KeyError, TypeError):
        said = f"the server answered {status}"
    if status in _AWAY_STATUSES:
        return Away(said)
    if status == 404:
        return NotFound(said)
    return WrongUsage(said) if 400 <= status < 500 else Failure(said)


def _fault(fault: dict[str, Any]) -> str:
    return f"{fault.get('pointer') or fault.get('parameter') or 'body'}: {fault.get('detail')}"
