"""The HTTP side: reads one request after another from a keep-alive connection and routes it.

`/v1/messages` is the API; `/_fake/...` is for tests in other processes: scripts, requests, reset, health.
"""

import json
import logging
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from app.llm.fake import messages, wire
from app.llm.fake.problem import Problem, invalid
from app.llm.fake.state import FakeState

_log = logging.getLogger(__name__)

MAX_BODY = 32 * 1024 * 1024


class FakeHttpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection; closing it ends them all."""

    allow_reuse_address = True
    daemon_threads = True
    # A crowd of workers connects at once; a short queue would make some of them wait a second for the next SYN.
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], state: FakeState) -> None:
        self.state = state
        self._open: set[Any] = set()
        self._changed = threading.Condition()
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and remember it."""
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget it."""
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def close_connections(self, timeout_s: float = 2.0) -> None:
        """Cut every connection and wait until its thread is done with it."""
        with self._changed:
            for request in self._open:
                wire.Wire(request).cut()
            self._changed.wait_for(lambda: not self._open, timeout_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may vanish at any point; anything else is a fault of this server."""
        if not isinstance(sys.exception(), ConnectionError | wire.ClientGone):
            _log.exception("a request was not answered")


class Handler(BaseHTTPRequestHandler):
    """Reads requests; what they mean is decided elsewhere."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FakeHttpServer

    def log_message(self, format: str, *args: Any) -> None:
        """No access log: the request log has it all."""

    def route(self) -> None:
        """Answer the request whose head was just read."""
        self.wire = wire.Wire(self.connection)
        try:
            body = self._body()
            if body is not None:
                self._dispatch(body)
        except wire.ClientGone:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = route

    def _dispatch(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        if path == "/v1/messages" and self.command == "POST":
            headers = {name.lower(): value for name, value in self.headers.items()}
            messages.answer(self.server.state, self.wire, headers, body)
            return
        control = _CONTROLS.get((self.command, path))
        if control is None:
            self._refuse(Problem(404, "not_found_error", "Not Found"))
            return
        query = {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
        try:
            self._send(200, control(self.server.state, query, body))
        except (ValueError, LookupError, TypeError) as error:
            self._refuse(invalid(str(error)))

    def _body(self) -> bytes | None:
        """The whole body; None when it was refused unread."""
        if "transfer-encoding" in self.headers:
            self._refuse(Problem(411, "invalid_request_error", "content-length header is required"), close=True)
            return None
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY:
            self._refuse(Problem(413, "request_too_large", "Request exceeds the maximum size"), close=True)
            return None
        body = self.rfile.read(length)
        if len(body) < length:
            raise wire.ClientGone
        return body

    def _refuse(self, problem: Problem, *, close: bool = False) -> None:
        # A body that was not read would be taken for the next request.
        self.close_connection = self.close_connection or close
        self._send(problem.status, problem.body("req_none"))

    def _send(self, status: int, value: Any) -> None:
        self.wire.send(wire.plain(status, {"content-type": "application/json"}, json.dumps(value).encode()))


def _health(state: FakeState, query: dict[str, str], body: bytes) -> Any:
    return {"status": "ok"}


def _scripts(state: FakeState, query: dict[str, str], body: bytes) -> Any:
    said = json.loads(body)
    if not isinstance(said, dict):
        raise ValueError("a script is a JSON object with key and turns")
    state.script(said.get("key", ""), said.get("turns", ()))
    return {"status": "ok"}


def _requests(state: FakeState, query: dict[str, str], body: bytes) -> Any:
    return {"requests": [entry.to_json() for entry in state.requests(query.get("key"))]}


def _reset(state: FakeState, query: dict[str, str], body: bytes) -> Any:
    state.reset()
    return {"status": "ok"}


_CONTROLS: dict[tuple[str, str], Callable[[FakeState, dict[str, str], bytes], Any]] = {
    ("GET", "/_fake/health"): _health,
    ("POST", "/_fake/scripts"): _scripts,
    ("GET", "/_fake/requests"): _requests,
    ("POST", "/_fake/reset"): _reset,
}
