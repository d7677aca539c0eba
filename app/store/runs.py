"""Creating runs, and reading them as people see them."""

import json
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, case, exists, func, or_, select

from app.domain.effect import Effect
from app.domain.errors import AmbiguousRunId, RunNotFound
from app.domain.run import Dispatch, NewRun, RunView, StepView
from app.domain.status import RunStatus, ShownStatus, StepKind, StepStatus
from app.domain.text import dumps
from app.domain.usage import Usage
from app.store.dialect import after, insert_new, now
from app.store.open_steps import first_dispatch, insert_first
from app.store.tables import agent_version, run, run_step


def create_run(connection: Connection, new: NewRun, run_id: str, fraction: float) -> Dispatch:
    """The agent version if it is new, the run, and its first step, in one transaction."""
    version = {"id": new.agent.id, "body": new.agent.body(), "model": new.agent.model}
    connection.execute(insert_new(connection.dialect.name, agent_version).values(created_at=now()), version)
    values = {
        "id": run_id,
        "tenant": new.tenant,
        "agent_version_id": new.agent.id,
        "input": dumps(new.input),
        "metadata": dumps(new.metadata),
        "token_budget": new.token_budget,
        "cost_budget_nano": new.cost_budget_nano,
        "step_cap": new.step_cap,
        "open_steps": 1,
        "next_seq": 2,
    }
    start = insert_new(connection.dialect.name, run).values(created_at=now(), deadline_at=after(new.timeout_s))
    if connection.execute(start.returning(run.c.id), values).first() is None:
        return first_dispatch(run_id)  # an earlier COMMIT of this very call went through and only its answer was lost
    return insert_first(connection, run_id, fraction)


_FIRST = (run_step.c.run_id == run.c.id) & (run_step.c.seq == 1)
_NEVER_CLAIMED = (run.c.next_seq == 2) & exists().where(_FIRST & (run_step.c.attempt == 0))
_WORKABLE = exists().where(
    (run_step.c.run_id == run.c.id) & run_step.c.status.in_([StepStatus.READY.value, StepStatus.STARTED.value])
)
# QUEUED is derived, so a claim never has to write to the run.
_SHOWN = case(
    (run.c.status != RunStatus.ACTIVE, run.c.status),
    (_NEVER_CLAIMED, ShownStatus.QUEUED.value),
    (~_WORKABLE, ShownStatus.WAITING.value),
    else_=ShownStatus.RUNNING.value,
).label("shown")
_VIEW: Select[Any] = select(run, agent_version.c.model, _SHOWN).join(
    agent_version, agent_version.c.id == run.c.agent_version_id
)


#: Characters of input and output that a list shows: a page of runs must not weigh what a hundred inputs weigh.
EXCERPT = 500
_LISTED: Select[Any] = select(
    *(column for column in run.c if column.name not in ("input", "output")),
    func.substr(run.c.input, 1, EXCERPT).label("input"),
    func.substr(run.c.output, 1, EXCERPT).label("output"),
    agent_version.c.model,
    _SHOWN,
).join(agent_version, agent_version.c.id == run.c.agent_version_id)


def _having(status: ShownStatus) -> ColumnElement[bool]:
    if status in (ShownStatus.QUEUED, ShownStatus.RUNNING, ShownStatus.WAITING):
        return and_(run.c.status == RunStatus.ACTIVE, _SHOWN.element == status.value)
    return run.c.status == status.value


def get_run(connection: Connection, tenant: str | None, id_or_prefix: str) -> RunView:
    """The tenant's run of that id, or of that unique id prefix (hex digits, dashes optional).

    Args:
        tenant: None: of any tenant, for the engine's own use.

    Raises:
        RunNotFound: none, or not the tenant's.
        AmbiguousRunId: several.
    """
    low, high = _prefix_range(id_or_prefix)
    query = _VIEW.where(run.c.id.between(low, high)).limit(2)
    found = connection.execute(query if tenant is None else query.where(run.c.tenant == tenant)).all()
    if not found:
        raise RunNotFound(id_or_prefix)
    if len(found) > 1:
        raise AmbiguousRunId(id_or_prefix)
    return _run_view(found[0])


def _prefix_range(prefix: str) -> tuple[str, str]:
    digits = prefix.replace("-", "").lower()
    if not digits or len(digits) > 32 or any(c not in "0123456789abcdef" for c in digits):
        raise RunNotFound(prefix)
    return str(uuid.UUID(digits.ljust(32, "0"))), str(uuid.UUID(digits.ljust(32, "f")))


def list_runs(
    connection: Connection,
    tenant: str,
    *,
    status: ShownStatus | None,
    after_run: tuple[datetime, str] | None,
    limit: int,
) -> list[RunView]:
    """The tenant's runs, newest first, with the beginning of input and output only.

    Args:
        after_run: `(created_at, id)` of the last run of the page before.
    """
    query = _LISTED.where(run.c.tenant == tenant).order_by(run.c.created_at.desc(), run.c.id.desc()).limit(limit)
    if status is not None:
        query = query.where(_having(status))
    if after_run is not None:
        created_at, run_id = after_run
        # Row by row instead of a row comparison: Postgres then uses the index range for the first column at least.
        older = or_(run.c.created_at < created_at, and_(run.c.created_at == created_at, run.c.id < run_id))
        query = query.where(run.c.created_at <= created_at, older)
    return [_excerpt(_run_view(row)) for row in connection.execute(query)]


def _excerpt(view: RunView) -> RunView:
    cut_input, cut_output = len(view.input) == EXCERPT, len(view.output or "") == EXCERPT
    shown = dumps(_readable(view.input)) if cut_input else view.input
    return replace(view, input=shown, output=f"{view.output}…" if cut_output else view.output)


def _readable(cut: str) -> str:
    """The text of a JSON string whose end is missing; anything else stays the JSON text it is."""
    text = cut.rpartition("\\")[0] if "\\" in cut[-6:] else cut  # an escape may have been cut in two
    try:
        return f"{json.loads(text + chr(34))}…"
    except ValueError:
        return f"{cut}…"


_TIMELINE = select(run_step).where(run_step.c.run_id == bindparam("the_run")).order_by(run_step.c.seq)


def timeline(connection: Connection, run_id: str) -> list[StepView]:
    """Every step of the run, in order."""
    return [_step_view(row) for row in connection.execute(_TIMELINE, {"the_run": run_id})]


def _run_view(row: Row[Any]) -> RunView:
    return RunView(
        id=row.id,
        tenant=row.tenant,
        status=ShownStatus(row.shown),
        input=row.input,
        metadata=json.loads(row.metadata),
        model=row.model,
        agent_version_id=row.agent_version_id,
        created_at=row.created_at,
        deadline_at=row.deadline_at,
        finished_at=row.finished_at,
        token_budget=row.token_budget,
        cost_budget_nano=row.cost_budget_nano,
        step_cap=row.step_cap,
        tokens_used=row.tokens_used,
        wasted_tokens=row.wasted_tokens,
        cost_nano=row.cost_nano,
        wasted_cost_nano=row.wasted_cost_nano,
        unpriced_calls=row.unpriced_calls,
        steps=row.next_seq - 1,
        open_steps=row.open_steps,
        stop_code=row.stop_code,
        stop_reason=row.stop_reason,
        error_code=row.error_code,
        error_message=row.error_message,
        output=row.output,
        version=row.version,
    )


def _step_view(row: Row[Any]) -> StepView:
    return StepView(
        seq=row.seq,
        turn=row.turn,
        kind=StepKind(row.kind),
        status=StepStatus(row.status),
        attempt=row.attempt,
        tries=row.tries,
        crashes=row.crashes,
        dispatches=row.dispatches,
        queue=row.queue,
        owner=row.locked_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        run_at=row.run_at,
        latency_ms=row.latency_ms,
        model=row.model,
        stop_reason=row.stop_reason,
        response=row.response,
        request_id=row.request_id,
        usage=Usage(row.input_tokens, row.output_tokens, row.cache_write_tokens, row.cache_read_tokens),
        cost_nano=row.cost_nano,
        wasted_tokens=row.wasted_tokens,
        tool_use_id=row.tool_use_id,
        tool_name=row.tool_name,
        tool_input=row.tool_input,
        effect=Effect(row.effect) if row.effect else None,
        result=row.result,
        is_error=bool(row.is_error),
        error_code=row.error_code,
        error_message=row.error_message,
    )
