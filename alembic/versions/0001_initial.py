"""The first schema: agent_version, run, run_step, approval.

Written out in full and never edited once released; app/store/tables.py says what each part is for.
"""

from typing import Any

import sqlalchemy as sa

from alembic import op
from app.store.dialect import Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table("agent_version", *_agent_version())
    op.create_table("run", *_run_columns(), *_run_counters(), *_run_checks(), *_run_keys())
    op.create_index("ix_run_listed", "run", ["tenant", sa.text("created_at DESC"), sa.text("id DESC")])
    op.create_index(
        "ix_run_listed_by_status", "run", ["tenant", "status", sa.text("created_at DESC"), sa.text("id DESC")]
    )
    op.create_index("ix_run_deadline", "run", ["deadline_at"], **_only("status = 'ACTIVE' AND stop_code IS NULL"))
    op.create_table(
        "run_step", *_step_columns(), *_model_columns(), *_tool_columns(), *_step_checks(), *_step_call_checks()
    )
    op.create_index("ix_run_step_due", "run_step", ["status", "due_at"], **_only("due_at IS NOT NULL"))
    op.create_table("approval", *_approval())
    op.create_index("uq_approval_pending", "approval", ["run_id", "seq"], unique=True, **_only("status = 'PENDING'"))


def downgrade() -> None:
    """Take back."""
    for table in ("approval", "run_step", "run", "agent_version"):
        op.drop_table(table)


def _only(condition: str) -> dict[str, Any]:
    """A partial index, in both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def _count(name: str, type_: type[sa.types.TypeEngine[int]] = sa.Integer, start: str = "0") -> sa.Column[int]:
    return sa.Column(name, type_(), server_default=start, nullable=False)


def _agent_version() -> list[Any]:
    return [
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_version")),
    ]


def _run_columns() -> list[Any]:
    return [
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent_version_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="ACTIVE", nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), server_default="{}", nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("deadline_at", Instant(), nullable=False),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("token_budget", sa.BigInteger(), nullable=False),
        sa.Column("cost_budget_nano", sa.BigInteger(), nullable=True),
        sa.Column("step_cap", sa.Integer(), nullable=False),
    ]


def _run_counters() -> list[Any]:
    return [
        _count("tokens_used", sa.BigInteger),
        _count("wasted_tokens", sa.BigInteger),
        _count("cost_nano", sa.BigInteger),
        _count("wasted_cost_nano", sa.BigInteger),
        _count("unpriced_calls"),
        _count("open_steps"),
        _count("next_seq", start="1"),
        _count("continuations"),
        sa.Column("stop_code", sa.Text(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("stop_at", Instant(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("output", sa.Text(), nullable=True),
        _count("version", sa.BigInteger, "1"),
        sa.Column("parent_run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("forked_from_run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("forked_from_seq", sa.Integer(), nullable=True),
    ]


def _run_checks() -> list[Any]:
    terminal = "status IN ('CANCELLED', 'FAILED', 'SUCCEEDED', 'TIMED_OUT')"
    return _checks(
        "run",
        status="status IN ('ACTIVE', 'CANCELLED', 'FAILED', 'SUCCEEDED', 'TIMED_OUT')",
        finished_when_terminal=f"({terminal}) = (finished_at IS NOT NULL)",
        terminal_has_no_open_step=f"NOT ({terminal}) OR open_steps = 0",
        stop_has_a_time="(stop_code IS NULL) = (stop_at IS NULL)",
        failure_has_a_code="(status IN ('FAILED', 'TIMED_OUT', 'CANCELLED')) = (error_code IS NOT NULL)",
        counters="open_steps >= 0 AND next_seq >= 1 AND open_steps < next_seq",
        usage="tokens_used >= 0 AND wasted_tokens >= 0 AND cost_nano >= 0 AND wasted_cost_nano >= 0",
        limits="token_budget > 0 AND step_cap > 0 AND (cost_budget_nano IS NULL OR cost_budget_nano > 0)",
        fork="(forked_from_run_id IS NULL) = (forked_from_seq IS NULL)",
    )


def _run_keys() -> list[Any]:
    return [
        sa.ForeignKeyConstraint(["agent_version_id"], ["agent_version.id"], name=op.f("fk_run_agent_version_id")),
        sa.ForeignKeyConstraint(["parent_run_id"], ["run.id"], name=op.f("fk_run_parent_run_id")),
        sa.ForeignKeyConstraint(["forked_from_run_id"], ["run.id"], name=op.f("fk_run_forked_from_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    ]


def _step_columns() -> list[Any]:
    return [
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        _count("attempt"),
        _count("tries"),
        _count("crashes"),
        _count("dispatches"),
        sa.Column("locked_by", sa.Text(), nullable=True),
        sa.Column("run_at", Instant(), nullable=False),
        sa.Column("due_at", Instant(), nullable=True),
        sa.Column("suspect_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("latency_ms", sa.Integer(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_step_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_run_step")),
    ]


def _model_columns() -> list[Any]:
    return [
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=True),
        _count("input_tokens", sa.BigInteger),
        _count("output_tokens", sa.BigInteger),
        _count("cache_write_tokens", sa.BigInteger),
        _count("cache_read_tokens", sa.BigInteger),
        sa.Column("cost_nano", sa.BigInteger(), nullable=True),
        sa.Column("price_version", sa.Text(), nullable=True),
        _count("wasted_tokens", sa.BigInteger),
        _count("wasted_cost_nano", sa.BigInteger),
    ]


def _tool_columns() -> list[Any]:
    return [
        sa.Column("tool_use_id", sa.Text(), nullable=True),
        sa.Column("tool_name", sa.Text(), nullable=True),
        sa.Column("tool_input", sa.Text(), nullable=True),
        sa.Column("effect", sa.Text(), nullable=True),
        sa.Column("approval", sa.Text(), nullable=True),
        sa.Column("timeout_s", sa.Float(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("is_error", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    ]


def _step_checks() -> list[Any]:
    final = "status IN ('CANCELLED', 'DONE', 'ERROR')"
    return _checks(
        "run_step",
        status="status IN ('CANCELLED', 'DONE', 'ERROR', 'READY', 'STARTED', 'WAITING')",
        kind="kind IN ('MODEL', 'TOOL')",
        open_steps_are_due=f"({final}) = (due_at IS NULL)",
        final_steps_have_an_end=f"({final}) = (finished_at IS NOT NULL)",
        started_has_an_owner="status <> 'STARTED' OR locked_by IS NOT NULL",
        unclaimed_has_no_owner="status NOT IN ('READY', 'WAITING') OR locked_by IS NULL",
        started_was_claimed="status <> 'STARTED' OR attempt > 0",
        counts="seq >= 1 AND turn >= 1 AND attempt >= 0 AND tries >= 0 AND crashes >= 0 AND dispatches >= 0",
    )


def _step_call_checks() -> list[Any]:
    return _checks(
        "run_step",
        effect="effect IS NULL OR effect IN ('KEYED', 'READ', 'UNSAFE', 'VERIFIED')",
        tool_columns="(kind = 'TOOL') = (tool_use_id IS NOT NULL) AND (kind = 'TOOL') = (tool_name IS NOT NULL)"
        " AND (kind = 'TOOL' OR effect IS NULL) AND (kind = 'TOOL') = (timeout_s IS NOT NULL)",
        model_done_has_a_response="kind <> 'MODEL' OR status <> 'DONE' OR response IS NOT NULL",
        tool_done_has_a_result="kind <> 'TOOL' OR status <> 'DONE' OR result IS NOT NULL",
        usage="input_tokens >= 0 AND output_tokens >= 0 AND cache_write_tokens >= 0 AND cache_read_tokens >= 0",
    )


def _approval() -> list[Any]:
    return [
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_why", sa.Text(), nullable=True),
        sa.Column("decided_at", Instant(), nullable=True),
        *_checks(
            "approval",
            kind="kind IN ('approval', 'in_doubt')",
            status="status IN ('PENDING', 'DECIDED', 'EXPIRED', 'CLOSED')",
            decided_has_a_verdict="(status = 'DECIDED') = (verdict IS NOT NULL)",
            settled_has_a_time="(status = 'PENDING') = (decided_at IS NULL)",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
    ]


def _checks(table: str, /, **conditions: str) -> list[Any]:
    return [sa.CheckConstraint(sql, name=op.f(f"ck_{table}_{name}")) for name, sql in conditions.items()]
