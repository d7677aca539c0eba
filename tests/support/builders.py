"""Short ways to say what a store test needs: runs, answers, results, and a moved clock.

The clock is moved by writing other times into the rows, never by waiting.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select, update

from app.domain.agent import AgentVersion, ToolDefinition
from app.domain.effect import Effect
from app.domain.outcome import Answered, Returned
from app.domain.run import Claim, NewRun
from app.domain.text import dumps
from app.domain.usage import Usage
from app.store.dialect import after
from app.store.store import Store
from app.store.tables import approval, run, run_step

_numbers = itertools.count(1)
SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}}


def fresh_owner(process: str = "node-a.1f") -> str:
    """An owner that no other claim has."""
    number = next(_numbers)
    return f"{process}/{1000 + number}/task-{number}/{number:08x}"


def tool(name: str, effect: Effect = Effect.READ, **rules: Any) -> ToolDefinition:
    """A tool definition; `rules` are queue, timeout_s, approval."""
    return ToolDefinition(name, f"Does {name}.", SCHEMA, effect, **rules)


READ = tool("look")
KEYED = tool("put", Effect.KEYED)
VERIFIED = tool("book", Effect.VERIFIED)
UNSAFE = tool("pay", Effect.UNSAFE)
ASKING = tool("wipe", Effect.UNSAFE, approval="always")
AGENT = AgentVersion("claude-test", 1024, "Be brief.", (READ, KEYED, VERIFIED, UNSAFE, ASKING))


def new_run(**changes: Any) -> NewRun:
    """A run of `AGENT` with wide limits."""
    wide = NewRun(AGENT, "Which tickets are overdue?", token_budget=100_000, timeout_s=3600.0, step_cap=50)
    return replace(wide, **changes)


def text_answer(text: str = "None.", *, stop_reason: str | None = "end_turn", **changes: Any) -> Answered:
    """The model says `text` and stops."""
    return answer([{"type": "text", "text": text}], stop_reason=stop_reason, **changes)


def calls_answer(*names: str, **changes: Any) -> Answered:
    """The model asks for these tools."""
    blocks = [
        {"type": "tool_use", "id": f"toolu_{next(_numbers):04}", "name": n, "input": {"day": "now"}} for n in names
    ]
    return answer(blocks, stop_reason="tool_use", **changes)


def answer(blocks: Sequence[dict[str, Any]], *, stop_reason: str | None, **changes: Any) -> Answered:
    """An answer of 100 tokens that cost 1000 nano-dollars."""
    said = Answered(
        response=dumps(list(blocks)),
        stop_reason=stop_reason,
        model="claude-test",
        usage=Usage(60, 20, 15, 5),
        cost_nano=1000,
        price_version="test",
        message_id="msg_1",
        request_id="req_1",
        request_hash="0" * 64,
        latency_ms=12,
        tries=1,
    )
    return replace(said, **changes)


def returned(text: str = "ok", *, is_error: bool = False, error_code: str | None = None) -> Returned:
    """A tool's result."""
    return Returned(dumps(text), is_error, 3, error_code)


def claimed(store: Store, run_id: str, seq: int, owner: str = "") -> Claim:
    """Claim a step that must be claimable."""
    claim = store.claim_step(run_id, seq, owner or fresh_owner())
    assert claim is not None, f"step {seq} could not be claimed"
    return claim


def started_model(store: Store, **changes: Any) -> tuple[str, Claim]:
    """A new run whose first model step is claimed."""
    run_id, _ = store.create_run(new_run(**changes))
    return run_id, claimed(store, run_id, 1)


def opened_turn(store: Store, *names: str, **changes: Any) -> str:
    """A new run whose first answer asked for these tools; their steps are 2, 3, ..."""
    run_id, claim = started_model(store, **changes)
    store.finish_model_step(claim.lease, calls_answer(*names), AGENT)
    return run_id


def started_tool(store: Store, name: str = "look", **changes: Any) -> tuple[str, Claim]:
    """A new run with one tool step, which is claimed: step 2."""
    run_id = opened_turn(store, name, **changes)
    return run_id, claimed(store, run_id, 2)


def step_row(store: Store, run_id: str, seq: int) -> dict[str, Any]:
    """The columns of a step."""
    with store.engine.begin() as connection:
        found = connection.execute(select(run_step).where((run_step.c.run_id == run_id) & (run_step.c.seq == seq)))
        return dict(found.mappings().one())


def run_row(store: Store, run_id: str) -> dict[str, Any]:
    """The columns of a run."""
    with store.engine.begin() as connection:
        return dict(connection.execute(select(run).where(run.c.id == run_id)).mappings().one())


def approval_rows(store: Store, run_id: str) -> list[dict[str, Any]]:
    """The questions of a run, oldest first."""
    with store.engine.begin() as connection:
        asked = select(approval).where(approval.c.run_id == run_id).order_by(approval.c.created_at, approval.c.seq)
        return [dict(row) for row in connection.execute(asked).mappings()]


def set_step(store: Store, run_id: str, seq: int, **columns: Any) -> None:
    """Write columns of a step behind the store's back."""
    with store.engine.begin() as connection:
        connection.execute(
            update(run_step).where((run_step.c.run_id == run_id) & (run_step.c.seq == seq)).values(columns)
        )


def set_run(store: Store, run_id: str, **columns: Any) -> None:
    """Write columns of a run behind the store's back."""
    with store.engine.begin() as connection:
        connection.execute(update(run).where(run.c.id == run_id).values(columns))


def let_lapse(store: Store, run_id: str, seq: int) -> None:
    """The lease of a started step ran out a second ago."""
    set_step(store, run_id, seq, due_at=after(-1.0))


def let_come_due(store: Store, run_id: str, seq: int) -> None:
    """The wait of a step was over a second ago."""
    set_step(store, run_id, seq, run_at=after(-1.0), due_at=after(-1.0))


def let_deadline_pass(store: Store, run_id: str) -> None:
    """The run's deadline was a second ago."""
    set_run(store, run_id, deadline_at=after(-1.0))


def let_question_expire(store: Store, run_id: str, seq: int) -> None:
    """The question about a waiting step ran out a second ago."""
    with store.engine.begin() as connection:
        mine = (approval.c.run_id == run_id) & (approval.c.seq == seq) & (approval.c.status == "PENDING")
        connection.execute(update(approval).where(mine).values(expires_at=after(-1.0)))
    set_step(store, run_id, seq, due_at=after(-1.0))
