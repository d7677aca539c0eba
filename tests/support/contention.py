"""Forced interleavings on Postgres: rows are held from a connection of their own while others queue up behind them.

Who waits is read from pg_stat_activity, so the order in which the contenders come is certain, not a matter of sleeping.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.pool import NullPool

from app.store.dialect import open_engine
from app.store.store import Store

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    " AND pid <> pg_backend_pid()"
)
GIVE_UP_S = 20.0


class Contender:
    """A call in a thread of its own; its outcome is what it returned, or the exception that it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.outcome: Any = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> Any:
        """Wait for the end; the outcome."""
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive(), "the contender hangs"
        return self.outcome

    def wait(self, seconds: float) -> None:
        """Give it that much time to end, or less if it ends."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self.outcome = self._call()
        except Exception as error:
            self.outcome = error


@contextmanager
def rows_held(url: str, *statements: str) -> Iterator[Connection]:
    """Hold what these `SELECT … FOR …` statements lock, for the time of a block."""
    engine = open_engine(url, pool=NullPool)
    with engine.begin() as connection:
        for statement in statements:
            assert connection.execute(text(statement)).first() is not None, "nothing to hold"
        yield connection


def run_held(run_id: str) -> str:
    """The statement that locks a run's row."""
    return f"SELECT 1 FROM run WHERE id = '{run_id}' FOR NO KEY UPDATE"


def step_held(run_id: str, seq: int) -> str:
    """The statement that locks a step's row."""
    return f"SELECT 1 FROM run_step WHERE run_id = '{run_id}' AND seq = {seq} FOR NO KEY UPDATE"


def wait_until_blocked(store: Store, count: int) -> None:
    """Return when that many connections of this database wait for a lock."""
    give_up = time.monotonic() + GIVE_UP_S
    engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
    while True:
        with engine.connect() as connection:
            waiting = connection.execute(_WAITING).scalar_one()
        if waiting >= count:
            return
        assert time.monotonic() < give_up, f"{waiting} of {count} connections wait for a lock"
        time.sleep(0.005)


def in_this_order(store: Store, url: str, held: str, calls: Sequence[Callable[[], object]]) -> list[Any]:
    """Queue the calls one by one behind the held row, let go, and return their outcomes.

    Postgres serves those who wait for one row in the order in which they came.
    """
    contenders = []
    with rows_held(url, held):
        for position, call in enumerate(calls, 1):
            contenders.append(Contender(call))
            wait_until_blocked(store, position)
    return [contender.join() for contender in contenders]


def at_once(calls: Sequence[Callable[[], object]]) -> list[Any]:
    """Let go of all calls at the same moment; their outcomes."""
    barrier = threading.Barrier(len(calls))

    def after_barrier(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            barrier.wait(GIVE_UP_S)
            return call()

        return run

    return [contender.join() for contender in [Contender(after_barrier(call)) for call in calls]]
