"""When a prefork child dies, its parent knows at once, and need not wait for the lease to run out."""

import logging
import threading
from typing import Any

from billiard.exceptions import WorkerLostError
from celery.worker.request import Request

from app.store.lapse import Lapsed
from tasks.names import is_step
from tasks.processes import parent_runtime

log = logging.getLogger("durable.step")


class StepRequest(Request):
    """The parent's view of a step that a child performs. Our part comes first: Celery's may raise without Redis."""

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        """The task raised, or its process is gone."""
        # Whatever it was: a step that was written down is not this claim's any more, and nothing happens to it.
        lost = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard wraps what a child reported
        is_gone = isinstance(lost, (WorkerLostError, SystemExit, KeyboardInterrupt))
        self._take_back("its process was lost" if is_gone else f"it raised {type(lost).__name__}")
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """The hard time limit is over; the pool kills the child."""
        if not soft:
            self._take_back(f"its process was killed after {timeout:g} s", outlived=True)
        super().on_timeout(soft, timeout)

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
