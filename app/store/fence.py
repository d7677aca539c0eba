"""The fence: every write to a started step goes through here, and this is the only place that raises LeaseLost.

The WHERE compares status, attempt and owner, never the clock: a lease that ran out but was not taken still holds.
"""

from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from app.domain.errors import LeaseLost
from app.domain.lease import Lease
from app.domain.status import FINAL_STEP_STATUSES, StepStatus
from app.store.tables import run_step

_THIS_CLAIM = (
    (run_step.c.run_id == bindparam("lease_run_id"))
    & (run_step.c.seq == bindparam("lease_seq"))
    & (run_step.c.attempt == bindparam("lease_attempt"))
    & (run_step.c.locked_by == bindparam("lease_owner"))
)
_WRITE = (
    update(run_step)
    .where(_THIS_CLAIM & (run_step.c.status == StepStatus.STARTED))
    .returning(
        run_step.c.turn,
        run_step.c.kind,
        run_step.c.queue,
        run_step.c.dispatches,
        run_step.c.tool_name,
        run_step.c.timeout_s,
    )
)
_CLOSED_BY_US = select(run_step.c.seq).where(
    _THIS_CLAIM & run_step.c.status.in_([status.value for status in FINAL_STEP_STATUSES])
)


def fenced(connection: Connection, lease: Lease, values: dict[str, Any]) -> Row[Any] | None:
    """Write `values` to the step if `lease` still holds it.

    Returns:
        The step's turn, kind, queue, dispatches, tool_name and timeout_s; None when this very lease had already closed
        the step: its earlier COMMIT went through and only the answer was lost, so there is nothing left to do.

    Raises:
        LeaseLost: another claim, a lapse or a stop has taken the step; nothing was written.
    Source: invariant I2.
    """
    where = {
        "lease_run_id": lease.run_id,
        "lease_seq": lease.seq,
        "lease_attempt": lease.attempt,
        "lease_owner": lease.owner,
    }
    step = connection.execute(_WRITE.values(values), where).first()
    if step is None and connection.execute(_CLOSED_BY_US, where).first() is None:
        raise LeaseLost(lease.run_id, lease.seq, lease.attempt)
    return step
