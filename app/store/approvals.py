"""Verdicts on waiting steps. The first one wins; expiry is tested in the UPDATE that settles the question."""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, or_, select, update

from app.domain import decide as core
from app.domain.errors import AlreadyDecided, IllegalTransition
from app.domain.run import Dispatch
from app.domain.status import StepKind, StepStatus, StopCode
from app.domain.text import clean, dumps
from app.store.dialect import after, now
from app.store.locked_run import LockedRun, lock_run
from app.store.open_steps import carry_out
from app.store.stop import stop_open_steps
from app.store.tables import approval, run_step

#: What a person, or a tool's own verify, can say about a waiting step.
VERDICTS = ("run", "done", "reject", "fail")

_PENDING = (
    (approval.c.run_id == bindparam("the_run"))
    & (approval.c.seq == bindparam("the_seq"))
    & (approval.c.status == "PENDING")
)
_DECIDE = (
    update(approval)
    .where(_PENDING & or_(approval.c.expires_at.is_(None), approval.c.expires_at > now()))
    .values(
        status="DECIDED",
        verdict=bindparam("the_verdict"),
        decided_by=bindparam("by"),
        decided_why=bindparam("why"),
        decided_at=now(),
    )
    .returning(approval.c.kind)
)
_EXPIRE = (
    update(approval)
    .where(_PENDING & (approval.c.expires_at <= now()))
    .values(status="EXPIRED", decided_at=now())
    .returning(approval.c.kind)
)
_THIS = (run_step.c.run_id == bindparam("the_run")) & (run_step.c.seq == bindparam("the_seq"))
_STEP = (
    select(
        run_step.c.seq,
        run_step.c.turn,
        run_step.c.kind,
        run_step.c.queue,
        run_step.c.dispatches,
        run_step.c.tool_name,
        run_step.c.timeout_s,
    )
    .where(_THIS & (run_step.c.status == StepStatus.WAITING))
    .with_for_update(key_share=True)
)
_WRITE = update(run_step).where(_THIS)


def decide(
    connection: Connection, run_id: str, seq: int, *, verdict: str, by: str, why: str | None, result: str | None
) -> list[Dispatch]:
    """Settle the question about a WAITING step.

    Args:
        verdict: `run` (approve, or run it again), `done` (it was done, with `result`), `reject` (the model reads a
        refusal),
            `fail` (the run fails).
        by: the person; `verify` for the tool's own answer.
        result: for `done`: content of the tool_result as JSON text.

    Raises:
        AlreadyDecided: settled, expired, or the run has ended; nothing was written.
        IllegalTransition: the verdict is not one of the four, or `done` came without a result.
    """
    if verdict not in VERDICTS or (verdict == "done") != (result is not None):
        raise IllegalTransition(
            f"verdict {verdict!r}: give one of {', '.join(VERDICTS)}, and a result with 'done' only"
        )
    run = lock_run(connection, run_id)
    where = {"the_run": run_id, "the_seq": seq}
    step = connection.execute(_STEP, where).first()
    told = {**where, "the_verdict": verdict, "by": clean(by), "why": clean(why) if why else None}
    if step is None or not run.is_active or connection.execute(_DECIDE, told).first() is None:
        raise AlreadyDecided(f"run {run_id} step {seq} waits for no verdict")
    if verdict == "run":
        ready = {"status": StepStatus.READY, "run_at": now(), "due_at": after(10.0), "dispatches": step.dispatches + 1}
        connection.execute(_WRITE.values(ready), where)
        run.save(connection)
        return [
            Dispatch(run_id, seq, StepKind(step.kind), step.queue, step.dispatches + 1, step.tool_name, step.timeout_s)
        ]
    if verdict == "fail":
        run.set_stop(connection, StopCode.FAILED_BY_REVIEWER, why)
        stop_open_steps(connection, run)
        return carry_out(connection, run, core.after_cancel(run.standing()), turn=step.turn, agent=None, fraction=0.0)
    if verdict == "done":
        return _close(connection, run, step, {"status": StepStatus.DONE, "result": result})
    return _close(connection, run, step, _error(f"rejected by {by}" + (f": {why}" if why else ""), "rejected"))


def expire(connection: Connection, run_id: str, seq: int) -> list[Dispatch]:
    """The question ran out: the model reads that nobody decided. A question without expiry is looked at again later."""
    run = lock_run(connection, run_id)
    where = {"the_run": run_id, "the_seq": seq}
    step = connection.execute(_STEP, where).first()
    if step is None or not run.is_active:
        return []
    if connection.execute(_EXPIRE, where).first() is None:
        connection.execute(_WRITE.values(due_at=after(60.0)), where)
        return []
    return _close(connection, run, step, _error("nobody approved the call in time", "expired"))


def _error(text: str, code: str) -> dict[str, Any]:
    return {"status": StepStatus.ERROR, "result": dumps(text), "is_error": True, "error_code": code}


def _close(
    connection: Connection, run: LockedRun, step: Row[*tuple[Any, ...]], columns: dict[str, Any]
) -> list[Dispatch]:
    closed = columns | {"due_at": None, "finished_at": now()}
    connection.execute(_WRITE.values(closed), {"the_run": run.id, "the_seq": step.seq})
    run.open_steps -= 1
    return carry_out(connection, run, core.after_tool(run.standing()), turn=step.turn, agent=None, fraction=0.0)
