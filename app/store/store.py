"""The contract page of persistence: every operation, one sentence, its errors. One class, two databases.

Rules:
1. Each verb is one transaction. What it returns is dispatched by the caller after the commit, never before.
2. A verb whose connection broke is run once more on a fresh one; if that fails, too, it is DatabaseAway. That is safe:
   claims carry an owner of their own, final rows keep it, and every other write is fenced.
3. No verb holds a connection after it returns, so nothing is held while a model thinks or a tool works.
"""

import random
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.domain.agent import AgentVersion
from app.domain.errors import DatabaseAway
from app.domain.lease import Lease
from app.domain.outcome import Answered, Cut, Postponed, Refused, Returned, Suspended
from app.domain.run import Claim, Dispatch, History, NewRun, RenewedLease, RunView, StepView
from app.domain.status import RunStatus, ShownStatus, StopCode
from app.store import approvals, checkpoint, claim, due, lapse, renew, runs, stop
from app.store.lapse import Lapsed

T = TypeVar("T")


class Store:
    """All operations on runs and steps.

    Args:
        engine: from `dialect.open_engine`.
        lease_s: how long a claim holds without renewal, in seconds.
        max_crashes: how many lapsed claims end a run as `crash_loop`.
        rand: random numbers in [0, 1); spreads due times.
    """

    def __init__(
        self, engine: Engine, *, lease_s: float = 30.0, max_crashes: int = 5, rand: Callable[[], float] = random.random
    ) -> None:
        self.engine = engine
        self.lease_s = lease_s
        self.max_crashes = max_crashes
        self._rand = rand
        # SQLite has no autocommit worth having here: BEGIN IMMEDIATE costs nothing without a network.
        self._single = (
            engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="AUTOCOMMIT")
        )

    def create_run(self, new: NewRun) -> tuple[str, Dispatch]:
        """Start a run; returns its id and the dispatch of step 1."""
        run_id = str(uuid.uuid4())
        return run_id, self._verb(lambda c: runs.create_run(c, new, run_id, self._rand()))

    def claim_step(self, run_id: str, seq: int, owner: str) -> Claim | None:
        """READY to STARTED for a fresh `owner`; None when there is nothing to claim (done, taken, or not yet due)."""

        def attempt(again: bool) -> Claim | None:
            with self._single.begin() as connection:
                return claim.claim_step(connection, run_id, seq, owner=owner, lease_s=self.lease_s, again=again)

        return _once_more(attempt)

    def read_history(self, run_id: str, before_seq: int) -> History:
        """What a model step needs: the frozen agent, the input and every final step before it."""
        return self._read(lambda c: claim.read_history(c, run_id, before_seq))

    def finish_model_step(self, lease: Lease, answer: Answered, agent: AgentVersion) -> list[Dispatch]:
        """Record an answer and open what comes next. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.finish_model_step(c, lease, answer, agent=agent, fraction=self._rand()))

    def refuse_model_step(self, lease: Lease, refused: Refused) -> list[Dispatch]:
        """Record that the model could not be asked; the run fails. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.refuse_model_step(c, lease, refused, self._rand()))

    def cut_step(self, lease: Lease, cut: Cut) -> list[Dispatch]:
        """Close a step that was ended on our side because its run is being stopped. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.cut_step(c, lease, cut, self._rand()))

    def finish_tool_step(self, lease: Lease, returned: Returned) -> list[Dispatch]:
        """Record a tool's result; the last of its turn opens the next model step. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.finish_tool_step(c, lease, returned, self._rand()))

    def postpone_step(self, lease: Lease, postponed: Postponed) -> list[Dispatch]:
        """Give the step back until the wait is over. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.postpone_step(c, lease, postponed, self._rand()))

    def suspend_step(self, lease: Lease, suspended: Suspended) -> list[Dispatch]:
        """Let the step wait for a person. Raises LeaseLost."""
        return self._verb(lambda c: checkpoint.suspend_step(c, lease, suspended, self._rand()))

    def lapse_step(self, lapsed: Lapsed) -> list[Dispatch] | None:
        """Take a step back from a claim that is gone; None when it is not that claim's any more."""
        return self._verb(lambda c: lapse.lapse_step(c, lapsed, max_crashes=self.max_crashes, fraction=self._rand()))

    def decide(
        self, run_id: str, seq: int, *, verdict: str, by: str, why: str | None = None, result: str | None = None
    ) -> list[Dispatch]:
        """Settle the question about a waiting step. Raises AlreadyDecided, IllegalTransition, RunNotFound."""
        return self._verb(lambda c: approvals.decide(c, run_id, seq, verdict=verdict, by=by, why=why, result=result))

    def stop_run(self, run_id: str, code: StopCode, reason: str | None = None) -> RunStatus:
        """Begin to stop a run; the first code wins, a terminal run stays as it is. Raises RunNotFound."""
        return self._verb(lambda c: stop.stop_run(c, run_id, code, reason))

    def renew_leases(self, leases: Sequence[Lease], due_leases: Sequence[Lease]) -> list[RenewedLease]:
        """Renew `due_leases`, and report on all of `leases`: still held? run being stopped? time left?"""
        with self._single.begin() as connection:
            return renew.renew_leases(connection, leases, due=due_leases, lease_s=self.lease_s)

    def ring_due(self, limit: int) -> list[Dispatch]:
        """READY steps whose dispatch counts as lost or whose back-off is over; their next due time is pushed."""
        return self._statement(lambda c: due.ring_due(c, limit, self._rand()))

    def ring_unclaimed(self, queue: str, limit: int) -> list[Dispatch]:
        """READY steps of a queue that the broker has lost; their next due time is pushed."""
        return self._statement(lambda c: due.ring_unclaimed(c, queue, limit, self._rand()))

    def unclaimed_queues(self) -> list[str]:
        """Queues that should hold a message by now."""
        return self._read(due.unclaimed_queues)

    def lapsed_claims(self, limit: int) -> list[Lapsed]:
        """Candidates for `lapse_step`."""
        return self._read(lambda c: due.lapsed_claims(c, limit))

    def expired_waits(self, limit: int) -> list[tuple[str, int]]:
        """Candidates for `expire_wait`, as (run_id, seq)."""
        return self._read(lambda c: due.expired_waits(c, limit))

    def expire_wait(self, run_id: str, seq: int) -> list[Dispatch]:
        """Close a question that ran out; one without expiry is looked at again later."""
        return self._verb(lambda c: approvals.expire(c, run_id, seq))

    def overdue_runs(self, limit: int) -> list[str]:
        """Active runs past their deadline that nobody is stopping yet."""
        return self._read(lambda c: due.overdue_runs(c, limit))

    def orphaned_runs(self, limit: int) -> list[str]:
        """Active runs without an open step (there should be none)."""
        return self._read(lambda c: due.orphaned_runs(c, limit))

    def get_run(self, tenant: str | None, id_or_prefix: str) -> RunView:
        """One run of the tenant (None: of any). Raises RunNotFound, AmbiguousRunId."""
        return self._read(lambda c: runs.get_run(c, tenant, id_or_prefix))

    def list_runs(
        self,
        tenant: str,
        *,
        status: ShownStatus | None = None,
        after_run: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[RunView]:
        """A page of runs, newest first; `after_run` is `(created_at, id)` of the last one of the page before."""
        return self._read(lambda c: runs.list_runs(c, tenant, status=status, after_run=after_run, limit=limit))

    def timeline(self, run_id: str) -> list[StepView]:
        """The steps of a run, in order."""
        return self._read(lambda c: runs.timeline(c, run_id))

    def ping(self) -> str | None:
        """Ask the database for the migration it is at; None when it was never migrated. Raises DatabaseAway."""

        def migration(connection: Connection) -> str | None:
            if not self.engine.dialect.has_table(connection, "alembic_version"):
                return None
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()

        return self._read(migration)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def _verb(self, work: Callable[[Connection], T]) -> T:
        def attempt(again: bool) -> T:
            with self.engine.begin() as connection:
                return work(connection)

        return _once_more(attempt)

    def _statement(self, work: Callable[[Connection], T]) -> T:
        def attempt(again: bool) -> T:
            with self._single.begin() as connection:
                return work(connection)

        return _once_more(attempt)

    _read = _statement


def _once_more(attempt: Callable[[bool], T]) -> T:
    try:
        try:
            return attempt(False)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return attempt(True)
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise DatabaseAway(str(getattr(error, "orig", None) or error).partition("\n")[0]) from error
