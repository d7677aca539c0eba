"""The maintenance worker: beat's sweeps, and sweeps of its own when beat or the broker is silent."""

import logging
import threading
import time
from typing import Any

from celery.signals import worker_ready

from app.engine.sweep import sweep, sweep_orphans
from tasks.celery_app import app
from tasks.configuration import MAINTENANCE_QUEUE, SWEEP_S
from tasks.processes import runtime

log = logging.getLogger("durable.sweep")

#: A maintenance worker that has not been told to sweep for so long sweeps by itself.
SILENCE_S = 10.0

_last_told = time.monotonic()


@app.task(name="agent.sweep")
def sweep_task() -> None:
    """Look at whatever is due."""
    global _last_told
    _last_told = time.monotonic()
    sweep(runtime())


@app.task(name="agent.sweep_orphans")
def sweep_orphans_task() -> None:
    """Look for runs that nobody would ever look at."""
    sweep_orphans(runtime())


@worker_ready.connect
def _watch_for_silence(sender: Any, **_: Any) -> None:
    if MAINTENANCE_QUEUE in {queue.name for queue in sender.task_consumer.queues}:
        threading.Thread(target=_sweep_while_silent, name="sweep-while-silent", daemon=True).start()


def _sweep_while_silent() -> None:
    pause = threading.Event()
    alone = False
    while not pause.wait(SWEEP_S):
        silent = time.monotonic() - _last_told > SILENCE_S
        if silent and not alone:
            log.warning("no word from beat for %g s: sweeping alone", SILENCE_S)
        elif alone and not silent:
            log.info("beat is back")
        alone = silent
        if alone:
            _sweep_alone()


def _sweep_alone() -> None:
    try:
        sweep(runtime())
    except Exception:
        log.exception("the sweep failed; trying again")
