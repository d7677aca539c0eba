"""One client connection: whole messages in one write, waits that notice a client that left, and the ways to cut it.

Rules: nothing is sent in small parts (Nagle and delayed acknowledgements cost 40 ms a piece); every wait ends at once
when the client is gone or the server closes.
"""

import contextlib
import socket
import time
from email.utils import formatdate
from http import HTTPStatus

CHUNKED_END = b"0\r\n\r\n"


class ClientGone(Exception):
    """The client has left, or the server is closing: there is nobody to answer."""


class Wire:
    """Writes to one connection. One thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, data: bytes) -> None:
        """Send all of `data`.

        Raises:
            ClientGone: the connection is broken.
        """
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ClientGone from error

    def wait_until(self, moment: float) -> None:
        """Wait until a moment of the monotonic clock, and make sure that the client is still there.

        Raises:
            ClientGone: it is not; raised as soon as it leaves.
        """
        # A zero timeout makes the socket non-blocking, which is the look without a wait that a past moment needs.
        if self._peek(max(0.0, moment - time.monotonic())):
            time.sleep(max(0.0, moment - time.monotonic()))

    def wait_for_close(self) -> None:
        """Stay silent until the client gives up. Always raises ClientGone."""
        while self._peek(None):
            # The client sent something ahead of its answer, which hides whether it is there.
            time.sleep(0.1)

    def cut(self) -> None:
        """End the connection now, in the middle of whatever it was."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _peek(self, timeout_s: float | None) -> bool:
        """Wait for the client to send or leave. False: it did neither in time."""
        try:
            self._socket.settimeout(timeout_s)
            sent = self._socket.recv(1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise ClientGone from error
        finally:
            # A read or write of the next request must not inherit the limit of this wait.
            with contextlib.suppress(OSError):
                self._socket.settimeout(None)
        if not sent:
            raise ClientGone
        return True


def head(status: int, headers: dict[str, str]) -> bytes:
    """Status line and headers."""
    known = status in HTTPStatus.__members__.values()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase if known else 'Error'}",
        f"date: {formatdate(usegmt=True)}",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def plain(status: int, headers: dict[str, str], body: bytes) -> bytes:
    """A whole answer of known length."""
    return head(status, {**headers, "content-length": str(len(body))}) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)
