"""The one task of runs: advance a step, then dispatch what it opened."""

import os
import uuid
from typing import Any

from celery import Task

from app.engine.advance import advance
from tasks.celery_app import app
from tasks.dispatch import TASK
from tasks.processes import runtime


@app.task(name=TASK, bind=True, Request="tasks.child_lost:StepRequest")
def step(self: Task[Any, None], run_id: str, seq: int) -> None:
    """Look at this step. The message has no authority: whoever can write to Redis can send any."""
    here = runtime()
    opened = advance(here, str(uuid.UUID(run_id)), int(seq), pid=os.getpid(), task_id=self.request.id)
    here.dispatcher.dispatch(opened)
