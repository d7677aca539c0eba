"""A TCP proxy in front of Postgres that counts what passes, and can lose the answer to a COMMIT.

One round trip is one burst of client messages that ends in Sync or is a simple Query (protocol 3.0).
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy.engine import make_url

_LENGTH_BYTES = 4  # the length of a message counts itself


@dataclass
class Traffic:
    """What passed since the last `clear`.

    Attributes:
        round_trips: bursts that the client waited for.
        commands: what the server did, as its command tags: `BEGIN`, `UPDATE 1`, `COMMIT`, ...
    """

    round_trips: int = 0
    commands: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Count from zero."""
        self.round_trips = 0
        self.commands.clear()


class Wire:
    """The proxy. `url` leads through it; `traffic` counts."""

    def __init__(self, database_url: str) -> None:
        parsed = make_url(database_url)
        assert parsed.host is not None
        assert parsed.port is not None
        self._target = (parsed.host, parsed.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._lose_commit = threading.Event()
        self.lost = threading.Event()
        self.traffic = Traffic()
        port = self._listener.getsockname()[1]
        plain = parsed.set(host="127.0.0.1", port=port).update_query_dict(
            {"sslmode": "disable", "gssencmode": "disable"}
        )
        self.url = plain.render_as_string(hide_password=False)
        self._spawn(self._accept)

    def lose_next_commit_answer(self) -> None:
        """Cut the connection when the server has committed, before the client hears of it."""
        self._lose_commit.set()

    def close(self) -> None:
        """Cut every connection and wait for the threads."""
        for each in self._sockets:
            _cut(each)
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, work: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            self._spawn(self._upstream, client, server)
            self._spawn(self._downstream, server, client)

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        with _both_cut(client, server):
            [length] = struct.unpack("!I", startup := _exactly(client, 4))
            server.sendall(startup + _exactly(client, length - 4))
            for kind, message in _messages(client):
                self.traffic.round_trips += kind in (b"S", b"Q")
                server.sendall(message)

    def _downstream(self, server: socket.socket, client: socket.socket) -> None:
        with _both_cut(client, server):
            for kind, message in _messages(server):
                if kind == b"C":
                    tag = message[5:-1].decode()
                    self.traffic.commands.append(tag)
                    if tag == "COMMIT" and self._lose_commit.is_set():
                        self._lose_commit.clear()
                        self.lost.set()
                        return
                client.sendall(message)


@contextmanager
def wire_to(database_url: str) -> Iterator[Wire]:
    """A proxy for the time of a block."""
    wire = Wire(database_url)
    try:
        yield wire
    finally:
        wire.close()


def _messages(source: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    while True:
        head = _exactly(source, 5)
        [length] = struct.unpack("!I", head[1:])
        yield head[:1], head + _exactly(source, length - _LENGTH_BYTES)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := source.recv(count - len(data))):
            raise ConnectionError("closed")
        data += more
    return data


@contextmanager
def _both_cut(client: socket.socket, server: socket.socket) -> Iterator[None]:
    try:
        with suppress(OSError):
            yield
    finally:
        _cut(client)
        _cut(server)


def _cut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
