"""The soft time limit of a tool: an exception inside it. The hard limit is the pool's, which kills the process."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from app.domain.errors import ToolTimeout

T = TypeVar("T")


def time_limit(seconds: float, work: Callable[[], T]) -> T:
    """Do the work, and raise ToolTimeout in it once `seconds` have passed; none left is the shortest limit there is.

    Only the main thread can be interrupted this way, which is where prefork children run their tasks. Elsewhere there
    is no soft limit: `call.time_left()` and `call.stopped()` are what a tool can ask. May be nested.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return work()
    over = False

    def raise_timeout(signum: int, frame: FrameType | None) -> None:
        if not over:
            raise ToolTimeout(f"timed out: the tool did not return within {seconds:g} s")

    began = time.monotonic()
    outer_left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    outer_handler = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
        return work()
    finally:
        # Before any call: Python looks for signals at calls, and an alarm that comes just now must neither replace the
        # result, nor leave the clean-up half done, nor go off in the checkpoint.
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_handler)
        if outer_left_s:
            signal.setitimer(signal.ITIMER_REAL, max(outer_left_s - (time.monotonic() - began), 0.001))
