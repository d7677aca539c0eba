"""Checks for /readyz: never slower than a second, never more than one of a kind under way, asked at most once a second.

A database that hangs must not collect a thread for every probe of an orchestrator.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

PATIENCE_S = 1.0
FRESH_S = 1.0


class Probe:
    """One check and its latest finding.

    Args:
        check: returns None when all is well, else what is wrong, in a few words; an exception counts as wrong.
        patience_s: how long an answer is waited for.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        check: Callable[[], str | None],
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check = check
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        self._finding: Future[str | None] | None = None
        self._asked_at = 0.0

    def look(self) -> str | None:
        """What is wrong, or None."""
        try:
            return self._current().result(self._patience_s)
        except TimeoutError:
            return "no answer in time"
        except Exception:
            return "away"

    def _current(self) -> "Future[str | None]":
        with self._lock:
            finding = self._finding
            if finding is None or (finding.done() and self._clock() - self._asked_at >= FRESH_S):
                finding = self._finding = Future()
                self._asked_at = self._clock()
                threading.Thread(target=self._ask, args=(finding,), name="probe", daemon=True).start()
            return finding

    def _ask(self, finding: "Future[str | None]") -> None:
        try:
            finding.set_result(self._check())
        except BaseException as error:
            finding.set_exception(error)
