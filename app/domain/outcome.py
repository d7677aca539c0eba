"""What came of performing a step: the values that the engine hands to the store's verbs."""

from dataclasses import dataclass, field

from app.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered, whatever its stop reason.

    Attributes:
        response: the content blocks as received, JSON text.
        cost_nano: nano-dollars; None when the model has no price.
        price_version: the price book's name and date that made the cost.
        message_id, request_id: Anthropic's ids.
        request_hash: SHA-256 of the request's JSON text.
        latency_ms: of the last attempt.
        tries: model requests made for this step over its whole life.
        waste: usage of cut or broken attempts of this claim; estimated.
    """

    response: str
    stop_reason: str | None
    model: str
    usage: Usage
    cost_nano: int | None
    price_version: str | None
    message_id: str | None
    request_id: str | None
    request_hash: str
    latency_ms: int
    tries: int
    waste: Usage = field(default_factory=Usage)
    waste_cost_nano: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The model could not be asked, and asking again is of no use: the run fails with `error_code`.

    `tries` and `waste` as in `Answered`; `latency_ms` is that of the last attempt.
    """

    error_code: str
    message: str
    tries: int
    latency_ms: int
    request_id: str | None = None
    waste: Usage = field(default_factory=Usage)
    waste_cost_nano: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """The run is being stopped and the call was ended on our side; what it had used is estimated."""

    tries: int
    latency_ms: int
    waste: Usage = field(default_factory=Usage)
    waste_cost_nano: int = 0


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool call ended. A failure is data for the model.

    Attributes:
        result: content of the tool_result as JSON text: a string, or a list of blocks.
        is_error: whether the model reads it as a failure.
        error_code: for people and metrics: `unknown_tool`, `bad_arguments`, `timed_out`, `raised`.
    """

    result: str
    is_error: bool
    latency_ms: int
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Postponed:
    """The step goes back to READY and may be claimed again after `wait_s` seconds.

    `reason` says why, for people: `overloaded_error`, `rate_limit_error`, `drain`, ...
    """

    wait_s: float
    tries: int
    reason: str
    waste: Usage = field(default_factory=Usage)
    waste_cost_nano: int = 0


@dataclass(frozen=True, slots=True)
class Suspended:
    """The step waits for a person.

    Attributes:
        kind: `approval` (may it run?) or `in_doubt` (what happened?).
        reason: one sentence for the person.
        expires_s: seconds until the question expires; None: only the run's deadline ends it.
    """

    kind: str
    reason: str
    expires_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """This process cannot perform the step (its tool is not implemented here): release it, do not fail it."""

    reason: str


Outcome = Answered | Refused | Cut | Returned | Postponed | Suspended | Unavailable
