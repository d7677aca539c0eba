"""The sweep: whatever is due is looked at again. What a lost message or a dead worker leaves behind does not stay.

Every part is idempotent, so any number of sweeps may run at once. Each row is a transaction of its own: one that fails
does not hold up the others.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from app.domain.lease import owner_node
from app.domain.run import Dispatch
from app.domain.status import StopCode
from app.engine.runtime import Runtime
from app.store.lapse import Lapsed

log = logging.getLogger("durable.sweep")
T = TypeVar("T")


def sweep(runtime: Runtime) -> int:
    """Ring for due steps, take back lapsed claims, expire questions, stop overdue runs; returns the rows moved."""
    store, limit = runtime.store, runtime.sweep_limit
    moved = _ring(runtime, store.ring_due(limit), "due")
    for queue in store.unclaimed_queues():
        if runtime.dispatcher.is_empty(queue):
            moved += _ring(runtime, store.ring_unclaimed(queue, limit), "lost by the broker")

    def lapse(lapsed: Lapsed) -> None:
        opened = store.lapse_step(lapsed)
        if opened is not None:
            log.info("run=%s seq=%s lease of %s lapsed", lapsed.run_id[:8], lapsed.seq, owner_node(lapsed.owner))
            runtime.dispatcher.dispatch(opened)

    def expire(waiting: tuple[str, int]) -> None:
        runtime.dispatcher.dispatch(store.expire_wait(*waiting))

    def time_out(run_id: str) -> None:
        status = store.stop_run(run_id, StopCode.DEADLINE, "the deadline passed")
        log.info("run=%s deadline passed: %s", run_id[:8], status)

    moved += _each(store.lapsed_claims(limit), lapse)
    moved += _each(store.expired_waits(limit), expire)
    return moved + _each(store.overdue_runs(limit), time_out)


def sweep_orphans(runtime: Runtime) -> int:
    """End active runs that have no open step. Invariant I6 says there are none; if one is found, it must not hang."""

    def end(run_id: str) -> None:
        log.error("run=%s is active without an open step", run_id[:8])
        runtime.store.stop_run(run_id, StopCode.ORPHANED, "active without an open step")

    return _each(runtime.store.orphaned_runs(runtime.sweep_limit), end)


def _ring(runtime: Runtime, dispatches: list[Dispatch], why: str) -> int:
    for dispatch in dispatches:
        log.info("run=%s seq=%s rung again (%s)", dispatch.run_id[:8], dispatch.seq, why)
    runtime.dispatcher.dispatch(dispatches)
    return len(dispatches)


def _each(rows: Iterable[T], handle: Callable[[T], None]) -> int:
    count = 0
    for row in rows:
        try:
            handle(row)
            count += 1
        except Exception:
            log.exception("could not sweep %s", row)
    return count
