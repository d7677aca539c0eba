from types import SimpleNamespace
from typing import Any

import pytest
from kombu.transport.redis import Channel
from redis.exceptions import ConnectionError as RedisConnectionError

import tasks.celery_app  # noqa: F401 - installs the guard
from tasks import broker_guard

#: A channel as it is when its connection is closed for the second time.
CLOSED = (SimpleNamespace(connection=None), SimpleNamespace(connection=SimpleNamespace(client=None)))


@pytest.mark.parametrize("channel", CLOSED)
def test_a_closed_connection_is_a_connection_error(channel: Any) -> None:
    guarded: Any = Channel._connparams
    with pytest.raises(RedisConnectionError):
        guarded(channel)


@pytest.mark.parametrize("channel", CLOSED)
def test_the_guard_is_still_needed(channel: Any) -> None:
    # When this fails, kombu has been mended: remove tasks/broker_guard.py.
    unguarded: Any = broker_guard._original
    with pytest.raises(AttributeError):
        unguarded(channel)


def test_installing_it_twice_does_not_wrap_it_twice() -> None:
    broker_guard.install()
    assert Channel._connparams is broker_guard._connparams
    assert broker_guard._original is not broker_guard._connparams
