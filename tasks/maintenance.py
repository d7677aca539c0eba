"""The maintenance worker: beat's sweeps, and sweeps of its own when beat or the broker is silent."""

import logging
import threading
import time
from typing import Any

from celery.signals import worker_ready

from app.engine.sweep import sweep, sweep_orphans
from tasks.celery_app import app
from tasks.configuration import MAINTENANCE_QUEUE
from tasks.processes import runtime

log = logging.getLogger("durable.sweep")

#: A maintenance worker that has not been told to sweep for so long sweeps by itself.
SILENCE_S = 10.0

_last_sweep = time.monotonic()


@app.task(name="agent.sweep")
def sweep_task() -> None:
    """Look at whatever is due."""
    global _last_sweep
    _last_sweep = time.monotonic()
    sweep(runtime())


@app.task(name="agent.sweep_orphans")
def sweep_orphans_task() -> None:
    """Look for runs that nobody would ever look at."""
    sweep_orphans(runtime())


@worker_ready.connect
def _watch_for_silence(sender: Any, **_: Any) -> None:
    if MAINTENANCE_QUEUE in {queue.name for queue in sender.task_consumer.queues}:
        threading.Thread(target=_sweep_when_silent, name="sweep-when-silent", daemon=True).start()


def _sweep_when_silent() -> None:
    pause = threading.Event()
    while not pause.wait(1.0):
        if time.monotonic() - _last_sweep > SILENCE_S:
            log.warning("no sweep for %.0f s: sweeping without beat", SILENCE_S)
            try:
                sweep_task()
            except Exception:
                log.exception("the sweep failed; trying again")
