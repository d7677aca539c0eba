"""The schema. A CHECK constraint for whatever one row can express; the rest are the invariants of `durable doctor`.

What goes back to the model is `text`, never jsonb (see app/domain/text.py). Money is nano-dollars, times are moments,
limits and latencies say their unit.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    desc,
    text,
)

from app.domain.effect import Effect
from app.domain.status import (
    FINAL_STEP_STATUSES,
    OPEN_STEP_STATUSES,
    TERMINAL_RUN_STATUSES,
    RunStatus,
    StepKind,
    StepStatus,
)
from app.store.dialect import Instant

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)


def _among(column: str, values: frozenset[str] | type) -> str:
    names = ", ".join(f"'{value}'" for value in sorted(str(v) for v in values))  # type: ignore[union-attr]
    return f"{column} IN ({names})"


_FINAL = _among("status", FINAL_STEP_STATUSES)
_TERMINAL = _among("status", TERMINAL_RUN_STATUSES)


def _count(name: str, type_: type = Integer) -> Column[int]:
    return Column(name, type_, nullable=False, server_default="0")


agent_version = Table(
    "agent_version",
    metadata,
    Column("id", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
)

run = Table(
    "run",
    metadata,
    Column("id", Uuid(as_uuid=False), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("agent_version_id", Text, ForeignKey("agent_version.id"), nullable=False),
    Column("status", Text, nullable=False, server_default=RunStatus.ACTIVE.value),
    Column("input", Text, nullable=False),
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column("created_at", Instant, nullable=False),
    Column("deadline_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("token_budget", BigInteger, nullable=False),
    Column("cost_budget_nano", BigInteger),
    Column("step_cap", Integer, nullable=False),
    _count("tokens_used", BigInteger),
    _count("wasted_tokens", BigInteger),
    _count("cost_nano", BigInteger),
    _count("wasted_cost_nano", BigInteger),
    _count("unpriced_calls"),
    _count("open_steps"),
    Column("next_seq", Integer, nullable=False, server_default="1"),
    _count("continuations"),
    Column("stop_code", Text),
    Column("stop_reason", Text),
    Column("stop_at", Instant),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("output", Text),
    Column("version", BigInteger, nullable=False, server_default="1"),
    Column("parent_run_id", Uuid(as_uuid=False), ForeignKey("run.id")),
    Column("forked_from_run_id", Uuid(as_uuid=False), ForeignKey("run.id")),
    Column("forked_from_seq", Integer),
    CheckConstraint(_among("status", RunStatus), name="status"),
    CheckConstraint(f"({_TERMINAL}) = (finished_at IS NOT NULL)", name="finished_when_terminal"),
    CheckConstraint(f"NOT ({_TERMINAL}) OR open_steps = 0", name="terminal_has_no_open_step"),
    CheckConstraint("(stop_code IS NULL) = (stop_at IS NULL)", name="stop_has_a_time"),
    CheckConstraint(
        "(status IN ('FAILED', 'TIMED_OUT', 'CANCELLED')) = (error_code IS NOT NULL)", name="failure_has_a_code"
    ),
    CheckConstraint("open_steps >= 0 AND next_seq >= 1 AND open_steps < next_seq", name="counters"),
    CheckConstraint(
        "tokens_used >= 0 AND wasted_tokens >= 0 AND cost_nano >= 0 AND wasted_cost_nano >= 0", name="usage"
    ),
    CheckConstraint(
        "token_budget > 0 AND step_cap > 0 AND (cost_budget_nano IS NULL OR cost_budget_nano > 0)", name="limits"
    ),
    CheckConstraint("(forked_from_run_id IS NULL) = (forked_from_seq IS NULL)", name="fork"),
    Index("ix_run_listed", "tenant", desc("created_at"), desc("id")),
    Index("ix_run_listed_by_status", "tenant", "status", desc("created_at"), desc("id")),
    Index(
        "ix_run_deadline",
        "deadline_at",
        postgresql_where=text("status = 'ACTIVE' AND stop_code IS NULL"),
        sqlite_where=text("status = 'ACTIVE' AND stop_code IS NULL"),
    ),
)

run_step = Table(
    "run_step",
    metadata,
    Column("run_id", Uuid(as_uuid=False), ForeignKey("run.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("queue", Text, nullable=False),
    _count("attempt"),
    _count("tries"),
    _count("crashes"),
    _count("dispatches"),
    Column("locked_by", Text),
    Column("run_at", Instant, nullable=False),
    Column("due_at", Instant),
    Column("suspect_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("latency_ms", Integer),
    Column("error_code", Text),
    Column("error_message", Text),
    # A model call.
    Column("model", Text),
    Column("stop_reason", Text),
    Column("response", Text),
    Column("message_id", Text),
    Column("request_id", Text),
    Column("request_hash", Text),
    _count("input_tokens", BigInteger),
    _count("output_tokens", BigInteger),
    _count("cache_write_tokens", BigInteger),
    _count("cache_read_tokens", BigInteger),
    Column("cost_nano", BigInteger),
    Column("price_version", Text),
    _count("wasted_tokens", BigInteger),
    _count("wasted_cost_nano", BigInteger),
    # A tool call.
    Column("tool_use_id", Text),
    Column("tool_name", Text),
    Column("tool_input", Text),
    Column("effect", Text),
    Column("approval", Text),
    Column("timeout_s", Float),
    Column("result", Text),
    Column("is_error", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint(_among("status", StepStatus), name="status"),
    CheckConstraint(_among("kind", StepKind), name="kind"),
    CheckConstraint(f"effect IS NULL OR {_among('effect', Effect)}", name="effect"),
    CheckConstraint(f"({_FINAL}) = (due_at IS NULL)", name="open_steps_are_due"),
    CheckConstraint(f"({_FINAL}) = (finished_at IS NOT NULL)", name="final_steps_have_an_end"),
    CheckConstraint("status <> 'STARTED' OR locked_by IS NOT NULL", name="started_has_an_owner"),
    CheckConstraint("status NOT IN ('READY', 'WAITING') OR locked_by IS NULL", name="unclaimed_has_no_owner"),
    CheckConstraint("status <> 'STARTED' OR attempt > 0", name="started_was_claimed"),
    CheckConstraint(
        "(kind = 'TOOL') = (tool_use_id IS NOT NULL) AND (kind = 'TOOL') = (tool_name IS NOT NULL)"
        " AND (kind = 'TOOL' OR effect IS NULL) AND (kind = 'TOOL') = (timeout_s IS NOT NULL)",
        name="tool_columns",
    ),
    CheckConstraint("kind <> 'MODEL' OR status <> 'DONE' OR response IS NOT NULL", name="model_done_has_a_response"),
    CheckConstraint("kind <> 'TOOL' OR status <> 'DONE' OR result IS NOT NULL", name="tool_done_has_a_result"),
    CheckConstraint(
        "seq >= 1 AND turn >= 1 AND attempt >= 0 AND tries >= 0 AND crashes >= 0 AND dispatches >= 0", name="counts"
    ),
    CheckConstraint(
        "input_tokens >= 0 AND output_tokens >= 0 AND cache_write_tokens >= 0 AND cache_read_tokens >= 0", name="usage"
    ),
    Index(
        "ix_run_step_due",
        "status",
        "due_at",
        postgresql_where=text("due_at IS NOT NULL"),
        sqlite_where=text("due_at IS NOT NULL"),
    ),
)

approval = Table(
    "approval",
    metadata,
    Column("id", Uuid(as_uuid=False), primary_key=True),
    Column("run_id", Uuid(as_uuid=False), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("verdict", Text),
    Column("decided_by", Text),
    Column("decided_why", Text),
    Column("decided_at", Instant),
    CheckConstraint("kind IN ('approval', 'in_doubt')", name="kind"),
    CheckConstraint("status IN ('PENDING', 'DECIDED', 'EXPIRED', 'CLOSED')", name="status"),
    CheckConstraint("(status = 'DECIDED') = (verdict IS NOT NULL)", name="decided_has_a_verdict"),
    CheckConstraint("(status = 'PENDING') = (decided_at IS NULL)", name="settled_has_a_time"),
    # One question at a time: what is asked about a step must be answered before anything else is.
    Index(
        "uq_approval_pending",
        "run_id",
        "seq",
        unique=True,
        postgresql_where=text("status = 'PENDING'"),
        sqlite_where=text("status = 'PENDING'"),
    ),
)

#: The open statuses, for statements that select "whatever may still change".
OPEN = tuple(sorted(status.value for status in OPEN_STEP_STATUSES))
