"""What is written when a claim ends: each function is one fenced transaction.

Every one of them reads the stop code under the run's lock: no step can postpone or suspend itself out of a stop.
"""

import uuid
from typing import Any

from sqlalchemy import Connection, insert

from app.domain import decide
from app.domain.agent import AgentVersion
from app.domain.lease import Lease
from app.domain.outcome import Answered, Cut, Postponed, Refused, Returned, Suspended
from app.domain.run import Dispatch
from app.domain.status import StepKind, StepStatus, StopCode
from app.domain.text import clean
from app.store.dialect import after, now
from app.store.fence import fenced
from app.store.locked_run import LockedRun, lock_run
from app.store.open_steps import carry_out
from app.store.stop import stop_open_steps
from app.store.tables import approval, run_step

_CONTINUED = ("pause_turn", "compaction")
_CLOSED: dict[str, Any] = {"due_at": None, "finished_at": now()}


def finish_model_step(
    connection: Connection, lease: Lease, answer: Answered, *, agent: AgentVersion, fraction: float
) -> list[Dispatch]:
    """Record the answer, count it, and open what comes next (invariants I1 to I5)."""
    run = lock_run(connection, lease.run_id)
    step = fenced(connection, lease, _answer_columns(answer) | _waste_columns(answer) | _CLOSED)
    if step is None:
        return []
    run.charge(answer.usage, answer.cost_nano)
    run.waste(answer.waste, answer.waste_cost_nano)
    run.open_steps -= 1
    following = decide.after_model(answer, run.standing())
    run.continuations = run.continuations + 1 if answer.stop_reason in _CONTINUED else 0
    return carry_out(connection, run, following, turn=step.turn, agent=agent, fraction=fraction)


def refuse_model_step(connection: Connection, lease: Lease, refused: Refused, fraction: float) -> list[Dispatch]:
    """The model could not be asked: the step is an ERROR and the run FAILED."""
    run = lock_run(connection, lease.run_id)
    columns = {
        "status": StepStatus.ERROR,
        "error_code": refused.error_code,
        "error_message": clean(refused.message),
        "request_id": refused.request_id,
        "latency_ms": refused.latency_ms,
    }
    step = fenced(connection, lease, columns | _waste_columns(refused) | _CLOSED)
    if step is None:
        return []
    run.waste(refused.waste, refused.waste_cost_nano)
    run.open_steps -= 1
    following = decide.after_failure(refused.error_code, refused.message, run.standing())
    return carry_out(connection, run, following, turn=step.turn, agent=None, fraction=fraction)


def cut_step(connection: Connection, lease: Lease, cut: Cut, fraction: float) -> list[Dispatch]:
    """The run is being stopped and the step was ended on our side: CANCELLED, with what a cut model call had used."""
    run = lock_run(connection, lease.run_id)
    run.waste(cut.waste, cut.waste_cost_nano)
    columns = {"latency_ms": cut.latency_ms} | _waste_columns(cut)
    return _cancel(connection, run, lease, columns, fraction=fraction, reason="the deadline passed during a model call")


def finish_tool_step(connection: Connection, lease: Lease, returned: Returned, fraction: float) -> list[Dispatch]:
    """Record the result; whoever closes the last open step of the turn opens the next model step."""
    run = lock_run(connection, lease.run_id)
    columns = {
        "status": StepStatus.ERROR if returned.is_error else StepStatus.DONE,
        "result": returned.result,
        "is_error": returned.is_error,
        "error_code": returned.error_code,
        "latency_ms": returned.latency_ms,
    }
    step = fenced(connection, lease, columns | _CLOSED)
    if step is None:
        return []
    run.open_steps -= 1
    following = decide.after_tool(run.standing())
    return carry_out(connection, run, following, turn=step.turn, agent=None, fraction=fraction)


def postpone_step(connection: Connection, lease: Lease, postponed: Postponed, fraction: float) -> list[Dispatch]:
    """READY again, not to be claimed before the wait is over. A wait that would pass the deadline ends the run now."""
    run = lock_run(connection, lease.run_id)
    run.waste(postponed.waste, postponed.waste_cost_nano)
    waste = _waste_columns(postponed)
    if run.stop_code is None and postponed.wait_s < run.seconds_left:
        hand_back = postponed.wait_s <= 0
        columns = {
            "status": StepStatus.READY,
            "locked_by": None,
            "run_at": after(postponed.wait_s),
            "due_at": after(10.0 if hand_back else postponed.wait_s),
            "dispatches": run_step.c.dispatches + int(hand_back),
            "error_code": postponed.reason,
        }
        step = fenced(connection, lease, columns | waste)
        if step is None:
            return []
        run.save(connection)
        if not hand_back:
            return []
        kind = StepKind(step.kind)
        return [Dispatch(lease.run_id, lease.seq, kind, step.queue, step.dispatches, step.tool_name, step.timeout_s)]
    reason = f"waiting {postponed.wait_s:.0f} s more would pass the deadline"
    return _cancel(connection, run, lease, waste, fraction=fraction, reason=reason)


def suspend_step(connection: Connection, lease: Lease, suspended: Suspended, fraction: float) -> list[Dispatch]:
    """WAITING for a person, with the question as an `approval` row."""
    run = lock_run(connection, lease.run_id)
    if run.stop_code is not None:
        return _cancel(connection, run, lease, {}, fraction=fraction, reason=None)
    wait_s = run.seconds_left if suspended.expires_s is None else suspended.expires_s
    columns = {"status": StepStatus.WAITING, "locked_by": None, "due_at": after(wait_s)}
    if fenced(connection, lease, columns) is not None:
        ask(connection, lease.run_id, lease.seq, suspended)
        run.save(connection)
    return []


def ask(connection: Connection, run_id: str, seq: int, question: Suspended) -> None:
    """The row that a person will decide."""
    expires_at = None if question.expires_s is None else after(question.expires_s)
    values = {"id": str(uuid.uuid4()), "run_id": run_id, "seq": seq, "kind": question.kind, "reason": question.reason}
    connection.execute(insert(approval).values(**values, status="PENDING", created_at=now(), expires_at=expires_at))


def _cancel(
    connection: Connection,
    run: LockedRun,
    lease: Lease,
    columns: dict[str, Any],
    *,
    fraction: float,
    reason: str | None,
) -> list[Dispatch]:
    """Close our step as CANCELLED, and whatever else is not started. Nobody stops the run yet: its deadline does."""
    step = fenced(connection, lease, {"status": StepStatus.CANCELLED} | columns | _CLOSED)
    if step is None:
        return []
    # Only now: a claim that does not hold the step must not stop the run either.
    run.set_stop(connection, StopCode.DEADLINE, reason)
    run.open_steps -= 1
    stop_open_steps(connection, run)
    following = decide.after_cancel(run.standing())
    return carry_out(connection, run, following, turn=step.turn, agent=None, fraction=fraction)


def _answer_columns(answer: Answered) -> dict[str, Any]:
    return {
        "status": StepStatus.DONE,
        "error_code": None,
        "latency_ms": answer.latency_ms,
        "model": answer.model,
        "stop_reason": answer.stop_reason,
        "response": answer.response,
        "message_id": answer.message_id,
        "request_id": answer.request_id,
        "request_hash": answer.request_hash,
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "cache_write_tokens": answer.usage.cache_write_tokens,
        "cache_read_tokens": answer.usage.cache_read_tokens,
        "cost_nano": answer.cost_nano,
        "price_version": answer.price_version,
    }


def _waste_columns(outcome: Answered | Refused | Cut | Postponed) -> dict[str, Any]:
    return {
        "tries": outcome.tries,
        "wasted_tokens": run_step.c.wasted_tokens + outcome.waste.total_tokens,
        "wasted_cost_nano": run_step.c.wasted_cost_nano + outcome.waste_cost_nano,
    }
