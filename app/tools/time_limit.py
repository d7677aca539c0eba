"""The soft time limit of a tool: an exception inside it. The hard limit is the pool's, which kills the process."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from app.domain.errors import ToolTimeout


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ToolTimeout in the block once `seconds` have passed.

    Only the main thread can be interrupted this way, which is where prefork children run their tasks. Elsewhere there is no
    soft limit: `call.time_left()` and `call.stopped()` are what a tool can ask.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def raise_timeout(signum: int, frame: FrameType | None) -> None:
        raise ToolTimeout(f"timed out: the tool did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
