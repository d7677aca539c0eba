"""Stopping a run: one verb for cancel, deadline, caps, the crash verdict and a reviewer's "fail"."""

from sqlalchemy import Connection, bindparam, func, select, update

from app.domain.decide import after_cancel
from app.domain.status import RunStatus, StepStatus, StopCode
from app.store.dialect import now
from app.store.locked_run import LockedRun, lock_run
from app.store.open_steps import carry_out
from app.store.tables import OPEN, approval, run_step

_CANCEL_UNSTARTED = (
    update(run_step)
    .where(run_step.c.run_id == bindparam("the_run"))
    .where(run_step.c.status.in_([StepStatus.READY.value, StepStatus.WAITING.value]))
    .values(status=StepStatus.CANCELLED, due_at=None, finished_at=now())
    .returning(run_step.c.seq)
)
_COUNT_OPEN = (
    select(func.count())
    .where((run_step.c.run_id == bindparam("the_run")) & run_step.c.status.in_(OPEN))
    .select_from(run_step)
)
_CLOSE_QUESTIONS = (
    update(approval)
    .where((approval.c.run_id == bindparam("the_run")) & (approval.c.status == "PENDING"))
    .values(status="CLOSED", decided_at=now())
)


def stop_run(connection: Connection, run_id: str, code: StopCode, reason: str | None) -> RunStatus:
    """Begin to stop the run; terminal at once when no step is started. A terminal run stays as it is.

    Returns:
        The stored status afterwards: ACTIVE while started steps are still being ended.
    """
    run = lock_run(connection, run_id)
    if run.is_active:
        run.set_stop(connection, code, reason)
        if code is StopCode.ORPHANED:
            # Its counter is what is wrong with it: by that counter it would never end.
            run.open_steps = connection.execute(_COUNT_OPEN, {"the_run": run_id}).scalar_one()
        stop_open_steps(connection, run)
        carry_out(connection, run, after_cancel(run.standing()), turn=0, agent=None, fraction=0.0)
    return run.status


def stop_open_steps(connection: Connection, run: LockedRun) -> None:
    """Cancel what is not started and close its questions; what stays open afterwards is started.

    A claim takes no run lock. One that commits first makes this UPDATE wait for the row and then skip it, since the
    row is no longer READY; one that comes later finds it CANCELLED. So the counter is right either way.
    """
    run.open_steps -= len(connection.execute(_CANCEL_UNSTARTED, {"the_run": run.id}).all())
    connection.execute(_CLOSE_QUESTIONS, {"the_run": run.id})
