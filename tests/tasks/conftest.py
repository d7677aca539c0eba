"""Celery applications configured as in production, against a broker of the test's choice."""

from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery

from app.config import Settings
from tasks.configuration import configuration
from tests.support.services import RedisTestServer


@pytest.fixture
def app_on() -> Iterator[Callable[[str], Celery]]:
    """Makes an application on a broker's URL."""
    made: list[Celery] = []

    def make(url: str) -> Celery:
        app = Celery("test", set_as_current=False)
        app.config_from_object(configuration(Settings(redis_url=url), ["model", "tool"]))
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def broker(redis_server: RedisTestServer) -> Iterator[redis.Redis]:
    """A client of an empty Redis that runs."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def app(app_on: Callable[[str], Celery], redis_server: RedisTestServer, broker: object) -> Celery:
    """An application on that Redis."""
    return app_on(redis_server.url)
