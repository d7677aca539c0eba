"""A process that dies at a chosen write boundary of the store.

A boundary is any moment at which a death leaves another state in the database or in the caller's head: before each
statement that writes, right before a COMMIT, and right after one (written, but the caller never heard of it).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, event

from app.store.store import Store

_WRITES = ("INSERT", "UPDATE", "DELETE")


class SimulatedCrash(BaseException):
    """The process is gone. No `except Exception` may catch it."""


class _Dying(Exception):
    """The crash on its way through SQLAlchemy, which closes a connection on a BaseException.

    A database in memory would go with it.
    """


class CrashPoints:
    """Raise `SimulatedCrash` at the n-th write boundary of a store, in the thread that entered.

    The transaction that was open is rolled back, as the database does when a client vanishes. Only the entering thread
    is counted, so that a keeper's renewals do not make the numbers jump.

    Args:
        store: the store of the process that dies.
        at: which boundary, from 1; 0 only counts.
    """

    def __init__(self, store: Store, at: int = 0) -> None:
        self.seen: list[str] = []
        self.crashed = False
        self._store = store
        self._at = at
        self._thread = 0
        self._engines: tuple[Engine, Engine] | None = None

    @property
    def count(self) -> int:
        """How many boundaries were passed."""
        return len(self.seen)

    def __enter__(self) -> Self:
        """Begin to count."""
        self._thread = threading.get_ident()
        event.listen(self._store.engine, "before_cursor_execute", self._before_statement)
        event.listen(self._store.engine, "commit", self._before_commit)
        self._engines = (self._store.engine, self._store._single)
        self._store.engine, self._store._single = (_Watched(engine, self) for engine in self._engines)  # type: ignore[assignment]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Leave the store as it was."""
        assert self._engines is not None
        self._store.engine, self._store._single = self._engines
        event.remove(self._store.engine, "before_cursor_execute", self._before_statement)
        event.remove(self._store.engine, "commit", self._before_commit)

    def reach(self, boundary: str) -> None:
        """Pass a boundary, or die at it."""
        if threading.get_ident() != self._thread:
            return
        self.seen.append(boundary)
        if self.count == self._at:
            self.crashed = True
            raise _Dying(f"boundary {self.count}: {boundary}")

    def _before_statement(self, connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.lstrip().upper().startswith(_WRITES):
            connection.info["wrote"] = " ".join(statement.split()[:3])
            self.reach(f"before {connection.info['wrote']}")

    def _before_commit(self, connection: Connection) -> None:
        # Under autocommit the statement itself was the commit: nothing lies between.
        autocommit = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
        if connection.info.get("wrote") and not autocommit:
            self.reach("before COMMIT")


class _Watched:
    """An engine whose `begin` reaches one more boundary when its transaction has been committed."""

    def __init__(self, engine: Engine, points: CrashPoints) -> None:
        self._engine = engine
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction."""
        try:
            with self._engine.begin() as connection:
                info = connection.info
                info.pop("wrote", None)
                yield connection
            if wrote := info.pop("wrote", None):
                self._points.reach(f"after COMMIT of {wrote}")
        except _Dying as dying:
            raise SimulatedCrash(str(dying)) from None
