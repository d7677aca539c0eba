"""The databases and servers that tests run on: real ones, started once per session, a new database for every test.

A test that takes `store` runs on SQLite in memory and on Postgres; with `@pytest.mark.every_database` on an SQLite
file too. Every store here checks the invariants after each of its verbs. Where no Postgres can be started the tests
that need it are skipped with the reason, and fail under CI.
"""

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg
import pytest

from app.embedded.errors import EmbeddedError
from app.store.dialect import open_engine
from app.store.migrations import upgrade
from app.store.tables import metadata
from tests.support.invariants import AuditedStore
from tests.support.services import PostgresServer, RedisTestServer, start_postgres, start_redis

TEMPLATE = "migrated"
T = TypeVar("T")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test that takes `store`."""
    if "store_kind" in metafunc.fixturenames:
        kinds = ["sqlite-memory", "postgres"]
        if metafunc.definition.get_closest_marker("every_database"):
            kinds.insert(1, "sqlite-file")
        metafunc.parametrize("store_kind", kinds)


def _started(start: Callable[[], T]) -> T:
    try:
        return start()
    except EmbeddedError as error:
        if os.environ.get("CI"):
            pytest.fail(f"no server for the tests: {error}")
        pytest.skip(f"no server for the tests: {error}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL whose database `migrated` has the schema; do not stop it, start one of your own for that."""
    server = _started(start_postgres)
    try:
        upgrade(server.create_database(TEMPLATE))
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def _idle_databases(postgres_server: PostgresServer) -> list[str]:
    """Databases that a test has given back. Emptying one is ten times as fast as DROP and CREATE DATABASE."""
    return []


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, _idle_databases: list[str]) -> Iterator[str]:
    """SQLAlchemy URL of a database with the schema and no rows."""
    url = _idle_databases.pop() if _idle_databases else postgres_server.create_database(template=TEMPLATE)
    yield url
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
        connection.execute("TRUNCATE agent_version, run, run_step, approval")
    _idle_databases.append(url)


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[AuditedStore]:
    """A store on Postgres."""
    store = AuditedStore(open_engine(postgres_url))
    yield store
    store.close()


@pytest.fixture
def sqlite_store() -> Iterator[AuditedStore]:
    """A store on SQLite in memory."""
    store = AuditedStore(open_engine("sqlite://"))
    metadata.create_all(store.engine)
    yield store
    store.close()


@pytest.fixture
def store_url(store_kind: str, request: pytest.FixtureRequest) -> str:
    """Where `store` keeps its data; SQLite in memory belongs to one store only."""
    if store_kind == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "sqlite://" if store_kind == "sqlite-memory" else f"sqlite:///{request.getfixturevalue('tmp_path')}/runs.db"


@pytest.fixture
def store(store_url: str) -> Iterator[AuditedStore]:
    """A store on each database in turn, with the schema and no rows."""
    store = AuditedStore(open_engine(store_url))
    if store_url.startswith("sqlite"):
        metadata.create_all(store.engine)
    yield store
    store.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisTestServer]:
    """A Redis for the session. A test that kills it starts it again before it ends."""
    server = _started(start_redis)
    yield server
    server.close()
