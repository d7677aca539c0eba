"""A guard against a fault of Celery 5.7.0: a worker with unacknowledged messages exits when Redis restarts.

Cause: while the broken connection is closed a second time, kombu asks it for its parameters, and gets an AttributeError
that nobody takes for a connection error. The guard says what it is. Remove it when the test in tests/tasks no longer
fails without it.
"""

from typing import Any

from kombu.transport.redis import Channel  # type: ignore[import-untyped, unused-ignore]
from redis.exceptions import ConnectionError as RedisConnectionError

_original = Channel._connparams


def _connparams(self: Any, asynchronous: bool = False) -> Any:
    if self.connection is None or self.connection.client is None:
        raise RedisConnectionError("the broker connection is closed")
    return _original(self, asynchronous)


def install() -> None:
    """Put the guard in place; more than once is harmless."""
    Channel._connparams = _connparams  # type: ignore[method-assign]
