"""What comes next: the one place that reads stop reasons.

Pure and total: given the finished step and the run's counters, the answer is a value that the store carries out in the
same transaction. Source of the stop reasons: Anthropic's "Handling stop reasons".
"""

import json
from dataclasses import dataclass

from app.domain.blocks import ToolUse, final_text, tool_uses
from app.domain.guard import Standing, guard
from app.domain.outcome import Answered
from app.domain.status import RunStatus, StopCode, terminal_status

#: Answers in a row that only say "go on" (`pause_turn`, `compaction`).
MAX_CONTINUATIONS = 10


@dataclass(frozen=True, slots=True)
class OpenTools:
    """Open one TOOL step per call, in this order."""

    calls: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True)
class OpenModel:
    """Open the next MODEL step."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Siblings are still open; whoever closes the last one decides."""


@dataclass(frozen=True, slots=True)
class End:
    """The run is over. `error_code` is None only for SUCCEEDED; `stop` says which rule ended it, if one did."""

    status: RunStatus
    error_code: str | None = None
    error_message: str | None = None
    output: str | None = None
    stop: StopCode | None = None


#: What the guard says when it ends a run; whoever else stops one gives a reason.
_SAYS = {
    StopCode.DEADLINE: "the deadline passed",
    StopCode.TOKEN_BUDGET: "the token budget is used up",
    StopCode.COST_BUDGET: "the cost budget is used up",
    StopCode.STEP_CAP: "the step cap is reached",
}

Next = OpenTools | OpenModel | Wait | End


def after_model(answer: Answered, standing: Standing) -> Next:
    """What follows an answered model step; `standing` already counts its usage."""
    if standing.stop_code is not None:
        return stopped(standing.stop_code)
    blocks = json.loads(answer.response)
    match answer.stop_reason:
        case "tool_use":
            return _open_tools(tool_uses(blocks), standing)
        case "end_turn" | "stop_sequence":
            return End(RunStatus.SUCCEEDED, output=final_text(blocks))
        case "pause_turn" | "compaction":
            if standing.continuations >= MAX_CONTINUATIONS:
                return _failed(
                    "too_many_continuations", f"the model paused {standing.continuations + 1} times in a row"
                )
            return _open(OpenModel(), 1, standing)
        case "max_tokens":
            return _failed("output_truncated", "the answer was cut at max_tokens", final_text(blocks))
        case "refusal" | "model_context_window_exceeded" as reason:
            return _failed(reason, f"the model stopped with {reason}", final_text(blocks))
        case unknown:
            return _failed("unknown_stop_reason", f"the model stopped with {unknown!r}", final_text(blocks))


def after_tool(standing: Standing) -> Next:
    """What follows a closed tool step."""
    return Wait() if standing.open_steps > 0 else _open(OpenModel(), 1, standing)


def after_failure(error_code: str, message: str, standing: Standing) -> Next:
    """What follows a model step that could not be asked."""
    return stopped(standing.stop_code) if standing.stop_code is not None else _failed(error_code, message)


def after_cancel(standing: Standing) -> Next:
    """What follows a step that a stop has closed: the end, once the last one is closed."""
    assert standing.stop_code is not None
    return Wait() if standing.open_steps > 0 else stopped(standing.stop_code)


def stopped(code: StopCode) -> End:
    """The end of a stopped run."""
    return End(terminal_status(code), error_code=code.value, error_message=_SAYS.get(code), stop=code)


def _open_tools(calls: list[ToolUse], standing: Standing) -> Next:
    if not calls:
        # Calling again would only repeat this, at a price.
        return _failed("empty_tool_use", "the model stopped for tools but asked for none")
    return _open(OpenTools(tuple(calls)), len(calls), standing)


def _open(following: Next, opening: int, standing: Standing) -> Next:
    code = guard(standing, opening)
    return following if code is None else stopped(code)


def _failed(code: str, message: str, output: str | None = None) -> End:
    return End(RunStatus.FAILED, error_code=code, error_message=message, output=output or None)
