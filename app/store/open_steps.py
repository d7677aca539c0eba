"""Carry out what `decide` said: the one way in which steps come up and runs end, in the transaction of the closing."""

import uuid
from typing import Any

from sqlalchemy import Connection, insert

from app.domain.agent import AgentVersion, ToolDefinition
from app.domain.backoff import redispatch_s
from app.domain.blocks import ToolUse
from app.domain.decide import End, Next, OpenModel, OpenTools, Wait
from app.domain.run import Dispatch
from app.domain.status import StepKind, StepStatus
from app.domain.text import clean, dumps
from app.store.dialect import after, now
from app.store.locked_run import LockedRun
from app.store.tables import approval, run_step

MODEL_QUEUE = "model"


def carry_out(
    connection: Connection, run: LockedRun, following: Next, *, turn: int, agent: AgentVersion | None, fraction: float
) -> list[Dispatch]:
    """Open steps, end the run, or wait; then save the run's counters (invariants I1, I3, I5).

    Args:
        turn: the turn of the step that was closed.
        agent: what the run was started with; needed to open tools.
        fraction: random, in [0, 1), spreads the due times.

    Returns:
        What to dispatch after the commit.
    """
    opened: list[dict[str, Any]] = []
    end = None
    match following:
        case OpenTools(calls):
            assert agent is not None
            numbered = enumerate(calls, run.next_seq)
            opened = [
                {"seq": seq, "turn": turn} | _tool_row(run, call, agent.tool(call.name)) for seq, call in numbered
            ]
        case OpenModel():
            opened = [model_row(run.id, run.next_seq, turn + 1)]
        case End():
            end = following
        case Wait():
            pass
    if opened:
        _insert(connection, opened, fraction)
    run.next_seq += len(opened)
    run.open_steps += len(opened)
    run.save(connection, end)
    return [_dispatch(row) for row in opened if row["status"] == StepStatus.READY]


def model_row(run_id: str, seq: int, turn: int) -> dict[str, Any]:
    """A MODEL step that may be claimed now."""
    return {
        "run_id": run_id,
        "seq": seq,
        "turn": turn,
        "kind": StepKind.MODEL,
        "status": StepStatus.READY,
        "queue": MODEL_QUEUE,
        "dispatches": 1,
    }


def insert_first(connection: Connection, run_id: str, fraction: float) -> Dispatch:
    """Step 1 of a new run."""
    _insert(connection, [model_row(run_id, 1, 1)], fraction)
    return first_dispatch(run_id)


def first_dispatch(run_id: str) -> Dispatch:
    """The wake-up of step 1."""
    return _dispatch(model_row(run_id, 1, 1))


def _tool_row(run: LockedRun, call: ToolUse, tool: ToolDefinition | None) -> dict[str, Any]:
    # A call of a tool that the run does not have is a step like any other (I3), only without an effect: performing it
    # tells the model so.
    waits = tool is not None and tool.approval == "always"
    return {
        "run_id": run.id,
        "kind": StepKind.TOOL,
        "status": StepStatus.WAITING if waits else StepStatus.READY,
        "queue": tool.queue if tool else "tool",
        "dispatches": 0 if waits else 1,
        "tool_use_id": clean(call.id),
        "tool_name": clean(call.name),
        "tool_input": dumps(call.input),
        "effect": tool.effect if tool else None,
        "approval": tool.approval if tool else "never",
        "timeout_s": tool.timeout_s if tool else 10.0,
    }


def _insert(connection: Connection, rows: list[dict[str, Any]], fraction: float) -> None:
    # One statement for all rows of a turn: RETURNING makes SQLAlchemy send a multi-row INSERT.
    statement = insert(run_step).values(
        run_at=now(), created_at=now(), due_at=after(redispatch_s(1, fraction=fraction))
    )
    connection.execute(statement.returning(run_step.c.seq), rows)
    waiting = [row for row in rows if row["status"] == StepStatus.WAITING]
    if waiting:
        connection.execute(insert(approval).values(created_at=now()), [_question(row) for row in waiting])


def _question(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "run_id": row["run_id"],
        "seq": row["seq"],
        "kind": "approval",
        "status": "PENDING",
        "reason": f"the tool {row['tool_name']} asks for approval before each call",
    }


def _dispatch(row: dict[str, Any]) -> Dispatch:
    return Dispatch(
        run_id=row["run_id"],
        seq=row["seq"],
        kind=StepKind(row["kind"]),
        queue=row["queue"],
        dispatches=row["dispatches"],
        tool_name=row.get("tool_name"),
        timeout_s=row.get("timeout_s"),
    )
