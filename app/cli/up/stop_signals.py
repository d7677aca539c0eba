"""Ctrl-C, SIGTERM and SIGHUP as a count, and a socket that wakes a waiting selector the moment one arrives."""

import signal
import socket
from types import FrameType
from typing import Any, Self

_ASK_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Takes over the signals while entered. SIGCHLD wakes the selector as well, and counts as nothing."""

    def __init__(self) -> None:
        """Make the socket; no signal is taken over yet."""
        self.requests = 0
        self._read_end, self._write_end = socket.socketpair()
        self._read_end.setblocking(False)
        self._write_end.setblocking(False)
        self._former: dict[signal.Signals, Any] = {}
        self._former_wakeup = -1

    def __enter__(self) -> Self:
        """Take over."""
        for number in (*_ASK_TO_STOP, signal.SIGCHLD):
            self._former[number] = signal.signal(number, self._count)
        self._former_wakeup = signal.set_wakeup_fd(self._write_end.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Give everything back."""
        signal.set_wakeup_fd(self._former_wakeup)
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._read_end.close()
        self._write_end.close()

    def fileno(self) -> int:
        """For a selector: readable once a signal came."""
        return self._read_end.fileno()

    def acknowledge(self) -> None:
        """Take the wake-up away; the count stays."""
        try:
            while self._read_end.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _count(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.requests += 1
