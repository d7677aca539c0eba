"""A claim that ended without a checkpoint: the one place that decides what becomes of its step.

Decided from the claim that lapsed, never from a count of attempts: READY again, ended as timed out, or in doubt where
the tool may not repeat (invariant I9), or the end of the run where the step keeps killing its worker (I12).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from app.domain import decide
from app.domain.effect import may_repeat
from app.domain.guard import Standing
from app.domain.outcome import Suspended
from app.domain.run import Dispatch
from app.domain.status import StepKind, StepStatus, StopCode
from app.domain.text import dumps
from app.store.checkpoint import ask
from app.store.dialect import after, now, seconds_until
from app.store.locked_run import LockedRun, lock_run
from app.store.open_steps import carry_out
from app.store.stop import stop_open_steps
from app.store.tables import run_step


@dataclass(frozen=True, slots=True)
class Lapsed:
    """Which claim lapsed.

    Attributes:
        owner: the claim's owner, or only its end (`/pid/task id/`) when a parent saw its child die.
        when_due: only if the lease has run out by the database's clock; False when the process is known to be gone.
        outlived: the pool ended the call at its hard time limit. Nobody else can say so: a lease that ran out tells
            nothing about how long its process had worked.
    """

    run_id: str
    seq: int
    owner: str
    when_due: bool = True
    outlived: bool = False


_STEP = (
    select(
        run_step.c.turn,
        run_step.c.kind,
        run_step.c.queue,
        run_step.c.locked_by,
        run_step.c.crashes,
        run_step.c.dispatches,
        run_step.c.effect,
        run_step.c.tool_name,
        run_step.c.timeout_s,
        seconds_until(run_step.c.due_at).label("lease_left_s"),
    )
    .where((run_step.c.run_id == bindparam("the_run")) & (run_step.c.seq == bindparam("the_seq")))
    .where(run_step.c.status == StepStatus.STARTED)
    .with_for_update(key_share=True)
)
_WRITE = update(run_step).where((run_step.c.run_id == bindparam("the_run")) & (run_step.c.seq == bindparam("the_seq")))
_CRASHED: dict[str, Any] = {"crashes": run_step.c.crashes + 1}
# The owner is marked, or the claim that lapsed would take the closed row for its own checkpoint, see fence.py.
_CLOSED: dict[str, Any] = _CRASHED | {
    "due_at": None,
    "finished_at": now(),
    "locked_by": run_step.c.locked_by + "/lapsed",
}


def lapse_step(connection: Connection, lapsed: Lapsed, *, max_crashes: int, fraction: float) -> list[Dispatch] | None:
    """Take the step back from a claim that is gone; None when it is not that claim's any more."""
    run = lock_run(connection, lapsed.run_id)
    where = {"the_run": lapsed.run_id, "the_seq": lapsed.seq}
    step = connection.execute(_STEP, where).first()
    if step is None or not _is_gone(step, lapsed):
        return None

    closing = _closing(connection, run, step, lapsed=lapsed, max_crashes=max_crashes)
    if closing is not None:
        values, following = closing
        connection.execute(_WRITE.values(_CLOSED | values), where)
        run.open_steps -= 1
        if run.stop_code is not None:
            stop_open_steps(connection, run)
        return carry_out(connection, run, following(run.standing()), turn=step.turn, agent=None, fraction=fraction)
    if not may_repeat(step.effect):
        values = {"status": StepStatus.WAITING, "locked_by": None, "due_at": after(run.seconds_left)}
        connection.execute(_WRITE.values(_CRASHED | values), where)
        ask(connection, lapsed.run_id, lapsed.seq, Suspended("in_doubt", _doubt(step)))
        run.save(connection)
        return []
    return _ready_again(connection, run, lapsed, step)


def _closing(
    connection: Connection, run: LockedRun, step: Row[Any], *, lapsed: Lapsed, max_crashes: int
) -> tuple[dict[str, Any], Callable[[Standing], decide.Next]] | None:
    """How the step ends here, and what decides about the run then; None when it does not end."""
    if run.stop_code is not None:
        note = None if may_repeat(step.effect) else "in_doubt"
        return {"status": StepStatus.CANCELLED, "error_code": note}, decide.after_cancel
    if step.crashes + 1 >= max_crashes:
        run.set_stop(connection, StopCode.CRASH_LOOP, f"step {lapsed.seq} ended its worker {step.crashes + 1} times")
        return {"status": StepStatus.ERROR, "error_code": "crash_loop"}, decide.after_cancel
    if lapsed.outlived and step.timeout_s is not None and may_repeat(step.effect):
        return _timed_out(step), decide.after_tool
    return None


def _is_gone(step: Row[Any], lapsed: Lapsed) -> bool:
    return lapsed.owner in step.locked_by and not (lapsed.when_due and step.lease_left_s > 0)


def _ready_again(connection: Connection, run: LockedRun, lapsed: Lapsed, step: Row[Any]) -> list[Dispatch]:
    dispatches = step.dispatches + 1
    values = {
        "status": StepStatus.READY,
        "locked_by": None,
        "run_at": now(),
        "due_at": after(10.0),
        "dispatches": dispatches,
    }
    where = {"the_run": lapsed.run_id, "the_seq": lapsed.seq}
    connection.execute(_WRITE.values(_CRASHED | values), where)
    run.save(connection)
    kind = StepKind(step.kind)
    return [Dispatch(lapsed.run_id, lapsed.seq, kind, step.queue, dispatches, step.tool_name, step.timeout_s)]


def _timed_out(step: Row[Any]) -> dict[str, Any]:
    text = f"timed out: {step.tool_name} did not return within {step.timeout_s:g} s and was ended"
    return {"status": StepStatus.ERROR, "result": dumps(text), "is_error": True, "error_code": "timed_out"}


def _doubt(step: Row[Any]) -> str:
    return f"the worker that ran {step.tool_name} ({step.effect}) was lost: whether the call took effect is not known"
