"""Connections that another thread can shut under a blocked call.

Closing a socket does not wake who is blocked in it; shutting it down does. Connections are pooled, and which one a
call was given is not told before the response headers come. So every connection is wrapped: who writes to it uses it
(httpcore works in the caller's own thread), and the call's cutoff shuts what that call uses. HTTP/1 only: one
connection serves one call at a time.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from app.llm.client import Cutoff

_thread = threading.local()


class _Call:
    """One call, and the plug of the connection that it uses now."""

    def __init__(self, cutoff: Cutoff) -> None:
        self._cutoff = cutoff
        self._plug: _Plug | None = None
        self._forget: Callable[[], None] = lambda: None

    def use(self, plug: "_Plug") -> None:
        if plug is self._plug:
            return
        self.release()
        self._plug = plug
        self._forget = self._cutoff.on_cut(lambda: plug.pull(self))

    def release(self) -> None:
        self._forget()
        if self._plug is not None:
            self._plug.release(self)


class _Plug:
    """A second handle on a connection's socket, for shutting it from another thread.

    A handle of its own, because TLS takes the first one away from us, and because a number closed and given out again
    between the look and the shutdown would be somebody else's connection.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock.dup()
        self._lock = threading.Lock()
        self._user: _Call | None = None

    def take(self) -> None:
        call: _Call | None = getattr(_thread, "call", None)
        with self._lock:
            self._user = call
        if call is not None:
            call.use(self)

    def release(self, call: _Call) -> None:
        with self._lock:
            if self._user is call:
                self._user = None

    def pull(self, call: _Call) -> None:
        # Only while that call still uses it: by now the connection may serve another call.
        with self._lock, contextlib.suppress(OSError):
            if self._user is call:
                self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            self._sock.close()


class _Stream:
    """An httpcore NetworkStream that notes who writes to it. By shape, not by subclass: importing httpcore is dear."""

    def __init__(self, stream: Any, plug: _Plug) -> None:
        self._stream = stream
        self._plug = plug

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._stream.read(max_bytes, timeout)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._plug.take()
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._plug.close()
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        try:
            return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._plug)
        except BaseException:
            # httpcore drops a stream whose handshake failed without closing it.
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend:
    """An httpcore NetworkBackend whose connections are `_Stream`s."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, *args: Any, **kwargs: Any) -> _Stream:
        stream = self._backend.connect_tcp(*args, **kwargs)
        plug = _Plug(stream.get_extra_info("socket"))
        # Already here, not at the first write: a call cut meanwhile must not start its handshake.
        plug.take()
        return _Stream(stream, plug)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


def make_cuttable(client: Any) -> None:
    """Wrap the connections of an httpx2 client, proxies included; before its first request.

    Raises:
        AttributeError: httpx2 is built differently now. httpx2 takes no network backend, so we reach for its pools.
    """
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            transport._pool._network_backend = _Backend(transport._pool._network_backend)


@contextlib.contextmanager
def cuttable(cutoff: Cutoff) -> Iterator[None]:
    """Whatever connection this thread uses inside is shut when `cutoff` is cut."""
    call = _Call(cutoff)
    _thread.call = call
    try:
        yield
    finally:
        _thread.call = None
        call.release()
