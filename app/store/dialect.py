"""Every difference between Postgres and SQLite: the clock, how times are kept, locks, transactions.

Postgres keeps `timestamptz`; SQLite keeps whole microseconds since 1970. In Python both are aware UTC datetimes. The
clock is the database's: no worker's own clock decides about a lease, a due time or a deadline.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Dialect, Engine, Float, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import BigInteger, DateTime, Text, TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(TypeDecorator[datetime]):
    """A moment: `timestamptz` in Postgres, integer microseconds in SQLite, an aware UTC datetime in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Integer storage on SQLite."""
        return dialect.type_descriptor(BigInteger() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Datetime to stored form."""
        if value is None or dialect.name != "sqlite":
            return value
        return (value - _EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Stored form to datetime."""
        if value is None:
            return None
        return _EPOCH + timedelta(microseconds=value) if dialect.name == "sqlite" else value.astimezone(UTC)


class now(FunctionElement[datetime]):
    """The database's clock, advancing within a transaction: a lock may have been waited for."""

    type = Instant()
    inherit_cache = True


@compiles(now, "postgresql")
def _now_postgres(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return "clock_timestamp()"


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return "now_us()"


class after(FunctionElement[datetime]):
    """`after(seconds)`: the database's clock plus that many seconds."""

    type = Instant()
    inherit_cache = True


@compiles(after, "postgresql")
def _after_postgres(element: after, compiler: SQLCompiler, **kw: Any) -> str:
    return f"clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **kw)})"


@compiles(after, "sqlite")
def _after_sqlite(element: after, compiler: SQLCompiler, **kw: Any) -> str:
    return f"now_us() + CAST({compiler.process(element.clauses, **kw)} * 1000000 AS INTEGER)"


class seconds_until(FunctionElement[float]):
    """`seconds_until(column)`: seconds from now to that moment, negative when it has passed."""

    type = Float()
    inherit_cache = True


@compiles(seconds_until, "postgresql")
def _until_postgres(element: seconds_until, compiler: SQLCompiler, **kw: Any) -> str:
    moment = compiler.process(element.clauses, **kw)
    return f"CAST(extract(epoch FROM {moment} - clock_timestamp()) AS double precision)"


@compiles(seconds_until, "sqlite")
def _until_sqlite(element: seconds_until, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(({compiler.process(element.clauses, **kw)}) - now_us()) / 1000000.0"


class relax_commit(FunctionElement[str]):
    """Let this transaction's commit not wait for the disk. SQLite: nothing."""

    type = Text()
    inherit_cache = True


@compiles(relax_commit, "postgresql")
def _relax_postgres(element: relax_commit, compiler: SQLCompiler, **kw: Any) -> str:
    return "set_config('synchronous_commit', 'off', true)"


@compiles(relax_commit, "sqlite")
def _relax_sqlite(element: relax_commit, compiler: SQLCompiler, **kw: Any) -> str:
    return "NULL"


def insert_new(engine_name: str, table: Any) -> Any:
    """An INSERT that leaves an existing row alone."""
    flavour = postgresql if engine_name == "postgresql" else sqlite
    return flavour.insert(table).on_conflict_do_nothing()


def open_engine(url: str, *, pool_size: int = 10, pool: type | None = None) -> Engine:
    """An engine with the settings that both databases need; connects on first use.

    Args:
        url: an SQLAlchemy URL (`postgresql+psycopg://…`, `sqlite:///file`, `sqlite://` for memory).
        pool_size: connections at most; a step holds none while it works, so a few serve many threads.
        pool: another pool class, e.g. NullPool for a process that will fork.
    """
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, pool_size)
    pool_args = {"poolclass": pool} if pool else {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": 10}
    # No pre-ping: it would cost a round trip per statement. The store repeats a verb once on a fresh connection
    # instead.
    return create_engine(parsed, **pool_args, connect_args=_POSTGRES_CONNECT)


_POSTGRES_CONNECT = {
    "connect_timeout": 5,
    "application_name": "durable-agent",
    "options": "-c timezone=UTC -c idle_in_transaction_session_timeout=30000"
    " -c statement_timeout=30000 -c lock_timeout=15000",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def _open_sqlite(url: Any, pool_size: int) -> Engine:
    # A memory database lives in its connection: one connection, waited for in turn.
    size = 1 if url.database in (None, "", ":memory:") else pool_size
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        connect_args={"check_same_thread": False, "timeout": 15},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, see below
    connection.create_function("now_us", 0, lambda: time.time_ns() // 1000)
    for pragma in ("foreign_keys = ON", "journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Any) -> None:
    # IMMEDIATE takes the write lock now. A deferred transaction that reads first and then writes fails with "database
    # is locked" when another one wrote in between, and no busy timeout helps.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
