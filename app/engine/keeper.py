"""The keeper renews this process's leases and ends work that lost its lease, outlived its limit, or is to be stopped.

Rules:
1. A database that does not answer for a moment aborts nothing: only the row's word, or the local end of the lease,
   does.
2. The local end is counted from before the claim was sent, so it never lies after the database's.
3. A step past its own limit is not renewed: a call that hangs must not be leased for ever.
4. Two threads per process, started by the first lease: a database that hangs must not stop the local watch.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

from app.domain.lease import Lease
from app.domain.run import RenewedLease
from app.llm.client import Cutoff
from app.store.store import Store

log = logging.getLogger(__name__)


class Held:
    """A lease while its step is worked on. `cutoff` ends the work; `ends_at` and `limit_at` are monotonic seconds."""

    def __init__(self, lease: Lease, ends_at: float, limit_at: float) -> None:
        self.lease = lease
        self.cutoff = Cutoff()
        self.ends_at = ends_at
        self.limit_at = limit_at

    def stopped(self) -> bool:
        """Whether the work should end: what a tool sees as `call.stopped()`."""
        return self.cutoff.reason is not None


class Keeper:
    """One per process.

    Args:
        store: with a connection of its own, so that a busy pool cannot starve renewals.
        tick_s: how often it looks, in seconds; None: every second, and oftener where leases are short.
        clock: monotonic seconds.
    """

    def __init__(
        self, store: Store, *, tick_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._tick_s = tick_s or min(1.0, store.lease_s / 10)
        self.clock = clock
        self._lock = threading.Lock()
        self._held: dict[Lease, Held] = {}
        self._pid = 0

    @contextlib.contextmanager
    def hold(self, lease: Lease, *, claimed_at: float, limit_s: float) -> Iterator[Held]:
        """Keep the lease alive while the block runs.

        Args:
            claimed_at: `clock()` from before the claim was sent.
            limit_s: how long the step may be worked on, in seconds.
        """
        held = Held(lease, claimed_at + self._store.lease_s, self.clock() + limit_s)
        self._start()
        with self._lock:
            self._held[lease] = held
        try:
            yield held
        finally:
            with self._lock:
                self._held.pop(lease, None)

    def watch(self) -> None:
        """Cut what is past its limit or whose lease is about to end, by the local clock alone."""
        now = self.clock()
        for held in self._all():
            if now >= held.limit_at:
                held.cutoff.cut("deadline")
            elif now >= held.ends_at - 2 * self._tick_s:  # the next look may come a little late
                log.warning("run=%s seq=%s lease could not be renewed in time", held.lease.run_id[:8], held.lease.seq)
                held.cutoff.cut("lease_lost")

    def renew(self) -> None:
        """Renew what has used a third of its time, and carry out what the rows say."""
        now = self.clock()
        working = [held for held in self._all() if now < held.limit_at and held.cutoff.reason != "lease_lost"]
        if not working:
            return
        used_a_third = self._store.lease_s * 2 / 3
        due = [held.lease for held in working if held.ends_at - now <= used_a_third]
        for report, held in zip(self._store.renew_leases([h.lease for h in working], due), working, strict=True):
            _carry_out(report, held, now)

    def _all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            # Threads do not survive a fork, and the parent's leases are the parent's: renewed here, they would outlive
            # it.
            self._pid = os.getpid()
            self._held = {}
        for name, work in (("watch", self.watch), ("renew", self.renew)):
            threading.Thread(target=self._loop, args=(work,), name=f"keeper-{name}", daemon=True).start()

    def _loop(self, work: Callable[[], None]) -> None:
        pause = threading.Event()
        while not pause.wait(self._tick_s):
            try:
                work()
            except Exception as error:
                log.warning("keeper: %s", str(error).partition("\n")[0])


def _carry_out(report: RenewedLease, held: Held, asked_at: float) -> None:
    if not report.held:
        held.cutoff.cut("lease_lost")
        return
    held.ends_at = asked_at + report.lease_left_s
    if report.stop_code is not None:
        held.cutoff.cut("stopped")
