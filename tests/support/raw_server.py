"""An HTTP server with control over every byte, for what a well-behaved server never does.

Each request is answered by the next of the given scripts. A script gets the `Peer`, sends what it likes, and returns;
`hang`, `flood` and `drip` go on until the client is gone, so a test that ends has proven that the client left.
"""

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

PING = b'event: ping\ndata: {"type": "ping"}\n\n'


@dataclass(frozen=True)
class Seen:
    """One request as it came; `connection` counts connections from 1."""

    headers: dict[str, str]
    raw: bytes
    connection: int

    @property
    def body(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.raw)


class Peer:
    """The client's end of a connection."""

    def __init__(self, sock: socket.socket, closing: threading.Event) -> None:
        self._sock = sock
        self._closing = closing

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._sock.sendall(data)

    def respond(self, status: int, headers: dict[str, str], body: str) -> None:
        """Send a whole response."""
        head = {"content-type": "application/json", "content-length": str(len(body.encode())), **headers}
        self.send(_head(status, head) + body.encode())

    def open_stream(self, **headers: str) -> None:
        """Send the head of an event stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **named}))

    def events(self, *events: dict[str, Any]) -> None:
        """Send stream events."""
        for event in events:
            self.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def chunk(self, data: bytes) -> None:
        """Send one chunk of the stream."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """End the stream as HTTP has it."""
        self.send(b"0\r\n\r\n")

    def drop(self) -> None:
        """Close the connection at once."""
        self._sock.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Say nothing until the client is gone."""
        self._sock.recv(1)

    def drip(self) -> None:
        """Ping for ever, until the client is gone."""
        while not self._closing.wait(0.02):
            self.chunk(PING)

    def flood(self) -> None:
        """Send as fast as possible, until the client is gone."""
        while not self._closing.is_set():
            self.push_through()

    def push_through(self) -> None:
        """Send so much that the client must have read all that was sent before. Comments, which it skips."""
        for _ in range(200):
            self.chunk(b":" + b"x" * 60_000 + b"\n")


Script = Callable[[Peer], None]


class RawServer:
    """Plays scripts, one for each request; see `raw_server`."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self.requests: list[Seen] = []
        self.arrived: queue.Queue[Seen] = queue.Queue()
        self._scripts = list(scripts)
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._socks: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """End every connection and thread."""
        self._closing.set()
        for sock in [self._listener, *self._socks]:
            with suppress(OSError):  # the client was faster
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socks.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock, len(self._socks)))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, connection: int) -> None:
        try:
            with sock, sock.makefile("rb") as stream:
                while (seen := _read(stream, connection)) is not None:
                    script = self._scripts.pop(0)
                    self.requests.append(seen)
                    self.arrived.put(seen)
                    script(Peer(sock, self._closing))
        except OSError:
            pass  # the client is gone, as it may be at any byte


@contextmanager
def raw_server(*scripts: Script) -> Iterator[RawServer]:
    """A server on a free port that answers the n-th request with the n-th script."""
    server = RawServer(scripts)
    try:
        yield server
    finally:
        server.close()


def _read(stream: Any, connection: int) -> Seen | None:
    if not stream.readline():
        return None
    headers = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Seen(headers, stream.read(int(headers.get("content-length", "0"))), connection)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
