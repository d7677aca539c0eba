"""A run whose row is locked by this transaction: its counters as read under the lock, changed in Python, saved once.

Rules:
1. Lock order is run, then steps by seq, then approval; always FOR NO KEY UPDATE, which lets foreign keys pass.
2. Whoever closes or opens a step holds this lock, so nobody decides from counters that a sibling is changing.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from app.domain.decide import End
from app.domain.errors import RunNotFound
from app.domain.guard import Standing
from app.domain.status import RUN_TRANSITIONS, RunStatus, StopCode
from app.domain.text import clean
from app.domain.usage import Usage
from app.store.dialect import now, seconds_until
from app.store.tables import run

_COUNTERS = (
    "tokens_used",
    "wasted_tokens",
    "cost_nano",
    "wasted_cost_nano",
    "unpriced_calls",
    "open_steps",
    "next_seq",
    "continuations",
)
_LOCK = (
    select(
        run.c.status,
        run.c.stop_code,
        run.c.stop_reason,
        seconds_until(run.c.deadline_at).label("seconds_left"),
        run.c.token_budget,
        run.c.cost_budget_nano,
        run.c.step_cap,
        *(run.c[name] for name in _COUNTERS),
    )
    .where(run.c.id == bindparam("run_id"))
    .with_for_update(key_share=True)
)
_SAVE = (
    update(run)
    .where(run.c.id == bindparam("run_id"))
    .values({name: bindparam(f"new_{name}") for name in _COUNTERS} | {"version": run.c.version + 1})
)
_SAVE_END = _SAVE.values(
    status=bindparam("new_status"),
    error_code=bindparam("new_error_code"),
    error_message=bindparam("new_error_message"),
    output=bindparam("new_output"),
    finished_at=now(),
)
_SAVE_STOPPED = _SAVE_END.values(
    stop_code=bindparam("new_stop_code"), stop_reason=bindparam("new_error_message"), stop_at=now()
)
_SET_STOP = (
    update(run)
    .where(run.c.id == bindparam("run_id"))
    .values(stop_code=bindparam("code"), stop_reason=bindparam("reason"), stop_at=now())
)


@dataclass(slots=True)
class LockedRun:
    """The locked row. `seconds_left` is until the deadline, by the database's clock."""

    id: str
    status: RunStatus
    stop_code: StopCode | None
    stop_reason: str | None
    seconds_left: float
    token_budget: int
    cost_budget_nano: int | None
    step_cap: int
    tokens_used: int
    wasted_tokens: int
    cost_nano: int
    wasted_cost_nano: int
    unpriced_calls: int
    open_steps: int
    next_seq: int
    continuations: int

    @property
    def is_active(self) -> bool:
        """Whether anything may still be written to its steps."""
        return self.status is RunStatus.ACTIVE

    def standing(self) -> Standing:
        """The counters as the pure core wants them."""
        return Standing(
            stop_code=self.stop_code,
            seconds_left=self.seconds_left,
            tokens_used=self.tokens_used + self.wasted_tokens,
            token_budget=self.token_budget,
            cost_nano=self.cost_nano + self.wasted_cost_nano,
            cost_budget_nano=self.cost_budget_nano,
            next_seq=self.next_seq,
            step_cap=self.step_cap,
            open_steps=self.open_steps,
            continuations=self.continuations,
        )

    def charge(self, usage: Usage, cost_nano: int | None) -> None:
        """Count a finished call (invariant I4)."""
        self.tokens_used += usage.total_tokens
        self.cost_nano += cost_nano or 0
        self.unpriced_calls += cost_nano is None

    def waste(self, usage: Usage, cost_nano: int) -> None:
        """Count a call whose answer was lost or cut."""
        self.wasted_tokens += usage.total_tokens
        self.wasted_cost_nano += cost_nano

    def set_stop(self, connection: Connection, code: StopCode, reason: str | None) -> None:
        """Begin to stop the run; the first code wins."""
        if self.stop_code is None:
            self.stop_code, self.stop_reason = code, reason
            connection.execute(_SET_STOP, {"run_id": self.id, "code": code.value, "reason": _stored(reason)})

    def save(self, connection: Connection, end: End | None = None) -> None:
        """Write the counters back, and the terminal status if the run is over."""
        values: dict[str, Any] = {f"new_{name}": getattr(self, name) for name in _COUNTERS} | {"run_id": self.id}
        if end is None:
            connection.execute(_SAVE, values)
            return
        assert end.status in RUN_TRANSITIONS[self.status], f"{self.status} -> {end.status}"
        self.status = end.status
        values |= {
            "new_status": end.status.value,
            "new_error_code": end.error_code,
            "new_error_message": _stored(self.stop_reason or end.error_message),
            "new_output": _stored(end.output),
        }
        if end.stop is None or self.stop_code is not None:
            connection.execute(_SAVE_END, values)
        else:
            connection.execute(_SAVE_STOPPED, values | {"new_stop_code": end.stop.value})


def _stored(text: str | None) -> str | None:
    # A model or a person may write NUL or lone surrogates; a column refuses them, and the run would never end.
    return None if text is None else clean(text)


def lock_run(connection: Connection, run_id: str) -> LockedRun:
    """Lock the run's row and read its counters.

    Raises:
        RunNotFound: no such run.
    """
    row = connection.execute(_LOCK, {"run_id": run_id}).first()
    if row is None:
        raise RunNotFound(run_id)
    fields = dict(row._mapping)
    stop_code = fields.pop("stop_code")
    return LockedRun(
        id=run_id,
        status=RunStatus(fields.pop("status")),
        stop_code=StopCode(stop_code) if stop_code else None,
        **fields,
    )
