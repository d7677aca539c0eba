"""The loop without Celery: one process works a run off. For embedded use, and for tests of the engine."""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence

from app.domain.run import Dispatch, RunView
from app.engine.advance import advance
from app.engine.runtime import Runtime
from app.engine.sweep import sweep


class LocalDispatcher:
    """A queue in this process, in place of the broker."""

    def __init__(self) -> None:
        self.waiting: deque[Dispatch] = deque()

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Put the wake-ups in line."""
        self.waiting.extend(dispatches)

    def is_empty(self, queue: str) -> bool:
        """Whether nothing is in line for this queue."""
        return not any(dispatch.queue == queue for dispatch in list(self.waiting))


def drive(runtime: Runtime, run_id: str, *, idle: Callable[[float], None] = time.sleep) -> RunView:
    """Work until the run is terminal; whatever else is in line is worked off too.

    Args:
        idle: called with seconds when nothing is in line: a back-off, another process's lease, or a person is waited
        for.

    Raises:
        RunNotFound: no such run.
    """
    dispatcher = runtime.dispatcher
    assert isinstance(dispatcher, LocalDispatcher)
    while (run := runtime.store.get_run(None, run_id)).finished_at is None:
        if not dispatcher.waiting and not sweep(runtime):
            idle(0.2)
        while dispatcher.waiting:
            next_up = dispatcher.waiting.popleft()
            dispatcher.dispatch(advance(runtime, next_up.run_id, next_up.seq, pid=os.getpid(), task_id="-"))
    return run
