"""Stacks of real processes, one for all tests of a file: starting one takes seconds."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from app.store.migrations import upgrade
from tests.support.services import PostgresServer, RedisTestServer, start_postgres, start_redis
from tests.support.stack import MakeStack, Stack, stacks

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is slow."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")


@pytest.fixture(scope="module")
def own_redis() -> Iterator[RedisTestServer]:
    """A Redis that the tests of this file may stop and kill."""
    server = start_redis()
    yield server
    server.close()


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """A Postgres that the tests of this file may stop and kill."""
    server = start_postgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def make_stack(
    request: pytest.FixtureRequest, redis_server: RedisTestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeStack]:
    """Makes stacks without workers on new databases; keywords are fields of `Stack`, or other servers."""
    with ExitStack() as opened:

        def make(
            *, redis_server: RedisTestServer = redis_server, postgres: PostgresServer | None = None, **fields: object
        ) -> Stack:
            url = (postgres or request.getfixturevalue("postgres_server")).create_database()
            upgrade(url)
            with redis.Redis.from_url(redis_server.url) as client:
                client.flushall()
            open_stack = contextmanager(stacks)
            return opened.enter_context(open_stack(url, redis_server.url, tmp_path_factory.mktemp("stack"), **fields))

        yield make
