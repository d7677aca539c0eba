"""The one task of runs: advance a step, then dispatch what it opened."""

import logging
import os
from typing import Any

from celery import Task

from app.engine.advance import advance
from tasks.celery_app import app
from tasks.dispatch import TASK
from tasks.names import is_step
from tasks.processes import runtime

log = logging.getLogger("durable.step")


@app.task(name=TASK, bind=True, Request="tasks.child_lost:StepRequest")
def step(self: Task[Any, None], run_id: Any = None, seq: Any = None, **later: Any) -> None:
    """Look at this step. The message has no authority: whoever can write to Redis can send any.

    Args:
        later: what a newer version may send; a deploy mixes both.
    """
    if not is_step(run_id, seq):
        log.warning("dropped a message that names no step (task %s)", self.request.id)
        return
    here = runtime()
    here.dispatcher.dispatch(advance(here, run_id, seq, pid=os.getpid(), task_id=self.request.id))
