"""What the sweep looks for. Candidates are read without locks; each is then handled in a transaction of its own."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, bindparam, case, exists, or_, select, tuple_, update

from app.domain.run import Dispatch
from app.domain.status import RunStatus, StepKind, StepStatus
from app.store.dialect import after, now
from app.store.lapse import Lapsed
from app.store.tables import OPEN, run, run_step

_LADDER_S = case(
    (run_step.c.dispatches == 0, 10.0),
    (run_step.c.dispatches == 1, 20.0),
    (run_step.c.dispatches == 2, 40.0),
    else_=60.0,
)
# Read once per statement, in a subquery: a volatile function cannot bound an index, and every open step would be read.
_NOW = select(now()).scalar_subquery()
_KEY = tuple_(run_step.c.run_id, run_step.c.seq)


def _ring(which: ColumnElement[bool]) -> Executable:
    # due_at is always pushed, whatever comes of the dispatch: nothing starves behind a step that nobody takes.
    candidates = (
        select(run_step.c.run_id, run_step.c.seq)
        .where((run_step.c.status == StepStatus.READY) & which)
        .order_by(run_step.c.due_at)
        .limit(bindparam("at_most"))
        .with_for_update(key_share=True, skip_locked=True)
    )
    return (
        update(run_step)
        .where(_KEY.in_(candidates))
        .values(dispatches=run_step.c.dispatches + 1, due_at=after(_LADDER_S * bindparam("spread")))
        .returning(
            run_step.c.run_id,
            run_step.c.seq,
            run_step.c.kind,
            run_step.c.queue,
            run_step.c.dispatches,
            run_step.c.tool_name,
            run_step.c.timeout_s,
        )
    )


_RING_DUE = _ring(run_step.c.due_at <= _NOW)
_RING_UNCLAIMED = _ring(
    (run_step.c.queue == bindparam("the_queue")) & (run_step.c.dispatches > 0) & (run_step.c.run_at <= after(-1.0))
)


def ring_due(connection: Connection, limit: int, fraction: float) -> list[Dispatch]:
    """READY steps whose dispatch counts as lost, or whose back-off is over."""
    return _rung(connection, _RING_DUE, {"at_most": limit, "spread": 1.0 + 0.25 * fraction})


def ring_unclaimed(connection: Connection, queue: str, limit: int, fraction: float) -> list[Dispatch]:
    """READY steps of `queue`, dispatched over a second ago. The broker's queue is empty, so nothing carries them."""
    where = {"the_queue": queue, "at_most": limit, "spread": 1.0 + 0.25 * fraction}
    return _rung(connection, _RING_UNCLAIMED, where)


def _rung(connection: Connection, ring: Executable, where: dict[str, Any]) -> list[Dispatch]:
    rows = connection.execute(ring, where)
    return [Dispatch(r.run_id, r.seq, StepKind(r.kind), r.queue, r.dispatches, r.tool_name, r.timeout_s) for r in rows]


_UNCLAIMED_QUEUES = (
    select(run_step.c.queue)
    .where((run_step.c.status == StepStatus.READY) & (run_step.c.dispatches > 0) & (run_step.c.run_at <= after(-1.0)))
    .distinct()
)
_LAPSED = (
    select(run_step.c.run_id, run_step.c.seq, run_step.c.locked_by)
    .where((run_step.c.status == StepStatus.STARTED) & (run_step.c.due_at <= _NOW))
    .order_by(run_step.c.due_at)
    .limit(bindparam("at_most"))
)
_EXPIRED = (
    select(run_step.c.run_id, run_step.c.seq)
    .where((run_step.c.status == StepStatus.WAITING) & (run_step.c.due_at <= _NOW))
    .order_by(run_step.c.due_at)
    .limit(bindparam("at_most"))
)
_OVERDUE = (
    select(run.c.id)
    .where((run.c.status == RunStatus.ACTIVE) & run.c.stop_code.is_(None) & (run.c.deadline_at <= _NOW))
    .order_by(run.c.deadline_at)
    .limit(bindparam("at_most"))
)
_OPEN_STEP = exists().where((run_step.c.run_id == run.c.id) & run_step.c.status.in_(OPEN))
_ORPHANS = (
    select(run.c.id)
    .where((run.c.status == RunStatus.ACTIVE) & or_(run.c.open_steps == 0, ~_OPEN_STEP))
    .order_by(run.c.created_at)
    .limit(bindparam("at_most"))
)


def unclaimed_queues(connection: Connection) -> list[str]:
    """Queues that should hold a message: some step of theirs was dispatched over a second ago and not claimed."""
    return list(connection.execute(_UNCLAIMED_QUEUES).scalars())


def lapsed_claims(connection: Connection, limit: int) -> list[Lapsed]:
    """STARTED steps whose lease has run out."""
    return [Lapsed(r.run_id, r.seq, r.locked_by) for r in connection.execute(_LAPSED, {"at_most": limit})]


def expired_waits(connection: Connection, limit: int) -> list[tuple[str, int]]:
    """WAITING steps whose question has run out, as (run_id, seq)."""
    return [(r.run_id, r.seq) for r in connection.execute(_EXPIRED, {"at_most": limit})]


def overdue_runs(connection: Connection, limit: int) -> list[str]:
    """Active runs past their deadline that nobody is stopping yet."""
    return list(connection.execute(_OVERDUE, {"at_most": limit}).scalars())


def orphaned_runs(connection: Connection, limit: int) -> list[str]:
    """Active runs without an open step: invariant I6 says there are none."""
    return list(connection.execute(_ORPHANS, {"at_most": limit}).scalars())
