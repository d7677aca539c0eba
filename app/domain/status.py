"""The states of runs and steps, and which may follow which.

The tables below are the only statement of this: the CHECK constraints, the store's pair assertions and the diagram in
docs/states.md are made from them.
"""

from enum import StrEnum


class RunStatus(StrEnum):
    """What is stored. An ACTIVE run is shown as QUEUED, WAITING or RUNNING (`ShownStatus`)."""

    ACTIVE = "ACTIVE"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


class ShownStatus(StrEnum):
    """What the API shows: terminal states as stored, an active run by what its open steps do."""

    QUEUED = "QUEUED"  # nothing was ever claimed
    RUNNING = "RUNNING"
    WAITING = "WAITING"  # every open step waits for a person
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


class StepStatus(StrEnum):
    """READY may be claimed, STARTED is leased, WAITING is for a person, the rest is final."""

    READY = "READY"
    STARTED = "STARTED"
    WAITING = "WAITING"
    DONE = "DONE"
    ERROR = "ERROR"  # a failure the model will see, or the model call that ended the run
    CANCELLED = "CANCELLED"


class StepKind(StrEnum):
    """One model call, or one tool call."""

    MODEL = "MODEL"
    TOOL = "TOOL"


class StopCode(StrEnum):
    """Why a run was stopped before its own end. The first one wins."""

    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    TOKEN_BUDGET = "token_budget"
    COST_BUDGET = "cost_budget"
    STEP_CAP = "step_cap"
    CRASH_LOOP = "crash_loop"
    TOOL_UNAVAILABLE = "tool_unavailable"
    FAILED_BY_REVIEWER = "failed_by_reviewer"
    ORPHANED = "orphaned"


RUN_TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.ACTIVE: frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.TIMED_OUT}),
    RunStatus.SUCCEEDED: frozenset(),
    RunStatus.FAILED: frozenset({RunStatus.ACTIVE}),
    RunStatus.CANCELLED: frozenset(),
    RunStatus.TIMED_OUT: frozenset({RunStatus.ACTIVE}),
}

STEP_TRANSITIONS: dict[StepStatus, frozenset[StepStatus]] = {
    StepStatus.READY: frozenset({StepStatus.STARTED, StepStatus.WAITING, StepStatus.CANCELLED}),
    StepStatus.STARTED: frozenset(
        {StepStatus.READY, StepStatus.WAITING, StepStatus.DONE, StepStatus.ERROR, StepStatus.CANCELLED}
    ),
    StepStatus.WAITING: frozenset({StepStatus.READY, StepStatus.DONE, StepStatus.ERROR, StepStatus.CANCELLED}),
    StepStatus.DONE: frozenset(),
    StepStatus.ERROR: frozenset(),
    StepStatus.CANCELLED: frozenset(),
}

OPEN_STEP_STATUSES = frozenset(status for status, following in STEP_TRANSITIONS.items() if following)
FINAL_STEP_STATUSES = frozenset(StepStatus) - OPEN_STEP_STATUSES
TERMINAL_RUN_STATUSES = frozenset(RunStatus) - {RunStatus.ACTIVE}


def terminal_status(code: StopCode) -> RunStatus:
    """The status in which a stopped run ends."""
    match code:
        case StopCode.CANCELLED:
            return RunStatus.CANCELLED
        case StopCode.DEADLINE:
            return RunStatus.TIMED_OUT
        case _:
            return RunStatus.FAILED
