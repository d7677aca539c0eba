"""What a tool learns about the call it serves: who asks, under which key, and for how long."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The context of one call. A parameter annotated with it is filled in by the runtime and hidden from the model.

    It lives in the process that runs the tool: `seconds_left` is counted down from the moment it was made.

    Attributes:
        run_id: the run that asks.
        seq: the step of that run that this call is.
        id: the model's tool_use id; other gateways reuse it within a run, so it is no key.
        seconds_left: seconds until the call's deadline, as it began.
        attempt: claims of this step so far, this one included; 1 is the first.
        stopped: whether the run is being stopped; a long tool asks between its pieces of work.
        logger: for lines that belong to this call.
        clock: seconds that only go forward.
    """

    run_id: str
    seq: int
    id: str
    seconds_left: float
    attempt: int = 1
    stopped: Callable[[], bool] = field(default=_never, repr=False, compare=False)
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger] = field(
        default=logging.getLogger("durable.tool"), repr=False, compare=False
    )
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _began: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_began", self.clock())

    @property
    def idempotency_key(self) -> str:
        """The step's own identity, `{run_id}:{seq}`: the same on every attempt, and of no other call."""
        return f"{self.run_id}:{self.seq}"

    def time_left(self) -> float:
        """Seconds until the deadline, now; never negative."""
        return max(0.0, self.seconds_left - (self.clock() - self._began))
