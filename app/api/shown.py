"""Runs and steps as the API shows them: camelCase, RFC 3339 UTC, money as decimal strings.

What a model or a tool said is spliced in as the JSON text that was stored, so that no number passes through a float.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from app.domain.lease import owner_node
from app.domain.pricing import usd
from app.domain.run import RunView, StepView
from app.domain.text import dumps


class Raw(str):
    """JSON text, to be written as it is."""

    __slots__ = ()


def render(fields: Mapping[str, Any]) -> str:
    """An object as JSON text; values that are `Raw` go in unchanged."""
    return "{" + ",".join(f"{dumps(name)}:{_text(value)}" for name, value in fields.items()) + "}"


def render_list(items: Iterable[Mapping[str, Any]]) -> Raw:
    """An array of such objects."""
    return Raw("[" + ",".join(render(item) for item in items) + "]")


def run_fields(view: RunView) -> dict[str, Any]:
    """A run."""
    unknown_cost = view.unpriced_calls > 0 and view.cost_nano == 0
    return {
        "id": view.id,
        "status": view.status.value,
        "input": _stored(view.input),
        "output": view.output,
        "model": view.model,
        "tokenBudget": view.token_budget,
        "tokensUsed": view.tokens_used,
        "wastedTokens": view.wasted_tokens,
        "costBudgetUsd": _money(view.cost_budget_nano),
        "costUsd": None if unknown_cost else usd(view.cost_nano),
        "unpricedCalls": view.unpriced_calls,
        "maxSteps": view.step_cap,
        "steps": view.steps,
        "createdAt": moment(view.created_at),
        "deadlineAt": moment(view.deadline_at),
        "finishedAt": moment(view.finished_at),
        "errorCode": view.error_code,
        "errorMessage": view.error_message,
        "stopCode": view.stop_code,
        "metadata": view.metadata,
    }


def step_fields(step: StepView) -> dict[str, Any]:
    """A step of a timeline, without the request that was sent to the model."""
    usage = step.usage
    return {
        "seq": step.seq,
        "turn": step.turn,
        "kind": step.kind.value,
        "status": step.status.value,
        "attempt": step.attempt,
        "tries": step.tries,
        "crashes": step.crashes,
        "queue": step.queue,
        "node": owner_node(step.owner),
        "createdAt": moment(step.created_at),
        "startedAt": moment(step.started_at),
        "finishedAt": moment(step.finished_at),
        "runAt": moment(step.run_at),
        "latencyMs": step.latency_ms,
        "model": step.model,
        "stopReason": step.stop_reason,
        "usage": {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheWriteTokens": usage.cache_write_tokens,
            "cacheReadTokens": usage.cache_read_tokens,
        },
        "costUsd": _money(step.cost_nano),
        "wastedTokens": step.wasted_tokens,
        "content": _stored(step.response),
        "toolUseId": step.tool_use_id,
        "toolName": step.tool_name,
        "input": _stored(step.tool_input),
        "effect": None if step.effect is None else step.effect.value,
        "result": _stored(step.result),
        "isError": step.is_error,
        "errorCode": step.error_code,
        "errorMessage": step.error_message,
    }


def moment(at: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the microsecond: `2026-11-30T23:54:01.250000Z`."""
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _money(nano: int | None) -> str | None:
    return None if nano is None else usd(nano)


def _text(value: Any) -> str:
    return value if isinstance(value, Raw) else dumps(value)


def _stored(text: str | None) -> Any:
    """Stored JSON text as it is; a text that is not strict JSON (an overflowed number) is shown as a string."""
    if text is None:
        return None
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return Raw(text)


def _refuse(name: str) -> Any:
    raise ValueError(name)
