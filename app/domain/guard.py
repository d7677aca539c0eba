"""Why a run may not go on. Asked in every checkpoint, before anything new is opened."""

from dataclasses import dataclass

from app.domain.status import StopCode


@dataclass(frozen=True, slots=True)
class Standing:
    """The counters of a run at one moment, read under its lock, the finished step included.

    Attributes:
        seconds_left: until the deadline, by the database's clock; negative when it has passed.
        tokens_used: finished and wasted calls together.
        cost_nano: finished and wasted calls together, in nano-dollars.
        next_seq: the number that the next step will get; `next_seq - 1` steps exist.
        open_steps: steps that are not final, the one being closed not counted.
        continuations: model steps in a row, up to now, that ended with `pause_turn` or `compaction`.
    """

    stop_code: StopCode | None
    seconds_left: float
    tokens_used: int
    token_budget: int
    cost_nano: int
    cost_budget_nano: int | None
    next_seq: int
    step_cap: int
    open_steps: int
    continuations: int = 0


def guard(standing: Standing, opening: int) -> StopCode | None:
    """The first reason against opening `opening` more steps, or None: stop, deadline, tokens, cost, step cap.

    A turn's tools are asked for together, so they are opened all or none.
    """
    if standing.stop_code is not None:
        return standing.stop_code
    if standing.seconds_left <= 0:
        return StopCode.DEADLINE
    if standing.tokens_used >= standing.token_budget:
        return StopCode.TOKEN_BUDGET
    if standing.cost_budget_nano is not None and standing.cost_nano >= standing.cost_budget_nano:
        return StopCode.COST_BUDGET
    if standing.next_seq - 1 + opening > standing.step_cap:
        return StopCode.STEP_CAP
    return None
