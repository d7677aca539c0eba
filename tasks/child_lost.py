"""When a prefork child dies, its parent knows at once, and need not wait for the lease to run out."""

import logging
import threading
from typing import Any

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker.request import Request

from app.store.lapse import Lapsed
from tasks.names import is_step
from tasks.processes import parent_runtime

log = logging.getLogger("durable.step")


class StepRequest(Request):
    """The parent's view of a step that a child performs. Our part comes first: Celery's may raise without Redis."""

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        """The task raised, its process is gone, or the pool is about to kill it at its hard time limit."""
        lost = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard wraps what a child reported
        if isinstance(lost, TimeLimitExceeded):
            self._take_back("it outlived its hard time limit", outlived=True)
        elif isinstance(lost, (WorkerLostError, SystemExit, KeyboardInterrupt)):
            self._take_back("its process was lost")
        else:
            self._take_back(f"it raised {type(lost).__name__}")
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def _take_back(self, why: str, *, outlived: bool = False) -> None:
        run_id, seq = self.kwargs.get("run_id"), self.kwargs.get("seq")
        if is_step(run_id, seq):
            lapsed = Lapsed(run_id, seq, f"/{self.worker_pid}/{self.id}/", when_due=False, outlived=outlived)
            # In a thread: a database that is slow must not stop the worker's event loop.
            threading.Thread(target=take_back, args=(lapsed, why), daemon=True).start()


def take_back(lapsed: Lapsed, why: str) -> None:
    """Lapse the claim that a process had made for a task, if it had one."""
    run_id, seq = lapsed.run_id, lapsed.seq
    here = parent_runtime()
    try:
        opened = here.store.lapse_step(lapsed)
    except Exception:
        log.exception("run=%s seq=%s %s; its lease will lapse", run_id[:8], seq, why)
        return
    if opened is not None:
        log.warning("run=%s seq=%s taken back: %s", run_id[:8], seq, why)
        here.dispatcher.dispatch(opened)
