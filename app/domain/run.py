"""A run and its steps as values: what comes in, and what is shown."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.domain.agent import AgentVersion
from app.domain.effect import Effect
from app.domain.lease import Lease
from app.domain.replay import PastStep
from app.domain.status import ShownStatus, StepKind, StepStatus
from app.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class NewRun:
    """Everything a run is started with.

    Attributes:
        input: what the user says: a string, or a list of content blocks.
        timeout_s: seconds from now to the deadline.
        cost_budget_nano: nano-dollars; None: no limit.
        step_cap: how many steps, of either kind, the run may have.
        metadata: the caller's own data, given back unchanged.
    """

    agent: AgentVersion
    input: str | list[dict[str, Any]]
    token_budget: int
    timeout_s: float
    step_cap: int
    cost_budget_nano: int | None = None
    tenant: str = "default"
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A wake-up to send after the commit: "look at this step". It carries no authority.

    Attributes:
        dispatches: how often the step was dispatched, this one included; part of the task id.
        timeout_s: the tool's time limit in seconds; None for model steps.
    """

    run_id: str
    seq: int
    kind: StepKind
    queue: str
    dispatches: int
    tool_name: str | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A started step, with what performing it needs from its own row.

    Attributes:
        tries: model requests made for this step before this claim.
        crashes: claims of this step that lapsed.
        seconds_left: until the run's deadline, by the database's clock.
        age_s: seconds since the step was opened.
        tool_input: the arguments as JSON text.
        effect: None for a tool that the run does not have.
    """

    lease: Lease
    kind: StepKind
    turn: int
    tries: int
    crashes: int
    seconds_left: float
    age_s: float = 0.0
    tool_use_id: str | None = None
    tool_name: str | None = None
    tool_input: str | None = None
    effect: Effect | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What a model step needs besides its own row: the frozen agent, the input and the past.

    `tokens_left` is what the steps before it left of the token budget.
    """

    agent: AgentVersion
    input: str
    steps: tuple[PastStep, ...]
    tokens_left: int


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as people see it. Times are aware UTC datetimes; money is nano-dollars.

    Attributes:
        cost_nano: of all priced calls; `unpriced_calls` says how many calls had no price.
        version: grows with every change of the row.
    """

    id: str
    tenant: str
    status: ShownStatus
    input: str
    metadata: dict[str, Any]
    model: str
    agent_version_id: str
    created_at: datetime
    deadline_at: datetime
    finished_at: datetime | None
    token_budget: int
    cost_budget_nano: int | None
    step_cap: int
    tokens_used: int
    wasted_tokens: int
    cost_nano: int
    wasted_cost_nano: int
    unpriced_calls: int
    steps: int
    open_steps: int
    stop_code: str | None
    stop_reason: str | None
    error_code: str | None
    error_message: str | None
    output: str | None
    version: int


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as the timeline shows it. Latencies are in milliseconds."""

    seq: int
    turn: int
    kind: StepKind
    status: StepStatus
    attempt: int
    tries: int
    crashes: int
    dispatches: int
    queue: str
    owner: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    run_at: datetime
    latency_ms: int | None
    model: str | None
    stop_reason: str | None
    response: str | None
    request_id: str | None
    usage: Usage
    cost_nano: int | None
    wasted_tokens: int
    tool_use_id: str | None
    tool_name: str | None
    tool_input: str | None
    effect: Effect | None
    result: str | None
    is_error: bool
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class RenewedLease:
    """What the keeper learned about one of its leases.

    Attributes:
        held: whether the step is still this claim's.
        stop_code: the run's stop code, if it is being stopped.
        lease_left_s: seconds until the lease ends, by the database's clock; 0 when it is not held.
    """

    lease: Lease
    held: bool
    stop_code: str | None
    lease_left_s: float
