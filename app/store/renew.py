"""The keeper's statements: renew leases, and learn which are lost and which runs are being stopped."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select, tuple_, update

from app.domain.lease import Lease
from app.domain.run import RenewedLease
from app.domain.status import StepStatus
from app.store.dialect import after, seconds_until
from app.store.tables import run, run_step

_KEY = tuple_(run_step.c.run_id, run_step.c.seq)
_CLAIM = tuple_(run_step.c.run_id, run_step.c.seq, run_step.c.attempt, run_step.c.locked_by)
_STOPPING = exists().where((run.c.id == run_step.c.run_id) & run.c.stop_code.is_not(None))

# In (run, seq) order and skipping locked rows, so that the keeper neither waits nor takes part in a deadlock: a row
# that a checkpoint has locked needs no renewal.
_RENEWABLE = (
    select(run_step.c.run_id, run_step.c.seq)
    .where((run_step.c.status == StepStatus.STARTED) & _CLAIM.in_(bindparam("claims", expanding=True)) & ~_STOPPING)
    .order_by(run_step.c.run_id, run_step.c.seq)
    .with_for_update(key_share=True, skip_locked=True)
)
_RENEW = update(run_step).where(_KEY.in_(_RENEWABLE)).values(due_at=after(bindparam("lease_s")), suspect_at=None)
_LOOK = (
    select(
        run_step.c.run_id,
        run_step.c.seq,
        run_step.c.attempt,
        run_step.c.locked_by,
        run_step.c.status,
        run.c.stop_code,
        seconds_until(run_step.c.due_at).label("lease_left_s"),
    )
    .join(run, run.c.id == run_step.c.run_id)
    .where(_KEY.in_(bindparam("keys", expanding=True)))
)


def renew_leases(
    connection: Connection, leases: Sequence[Lease], *, due: Sequence[Lease], lease_s: float
) -> list[RenewedLease]:
    """Renew the leases in `due` and report on all of `leases`.

    A lease of a run that is being stopped is not renewed: it lapses within one lease, and the sweep fences it off.
    """
    if due:
        claims = [(lease.run_id, lease.seq, lease.attempt, lease.owner) for lease in due]
        connection.execute(_RENEW, {"claims": claims, "lease_s": lease_s})
    rows = {
        (row.run_id, row.seq): row
        for row in connection.execute(_LOOK, {"keys": [(lease.run_id, lease.seq) for lease in leases]})
    }
    return [_report(lease, rows.get((lease.run_id, lease.seq))) for lease in leases]


def _report(lease: Lease, row: Any) -> RenewedLease:
    ours = (StepStatus.STARTED, lease.attempt, lease.owner)
    if row is None or (row.status, row.attempt, row.locked_by) != ours:
        return RenewedLease(lease, held=False, stop_code=None, lease_left_s=0.0)
    return RenewedLease(lease, held=True, stop_code=row.stop_code, lease_left_s=row.lease_left_s)
