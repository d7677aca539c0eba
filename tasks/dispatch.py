"""Sending wake-ups through Celery, after the commit. Best effort: what is lost here, the sweep rings for."""

import logging
import time
from collections.abc import Callable, Sequence

from celery import Celery
from celery.exceptions import QueueNotFound
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from app.domain.run import Dispatch
from app.domain.status import StepKind

log = logging.getLogger("durable.dispatch")

TASK = "agent.step"

#: Seconds that a tool gets beyond its soft limit before the pool kills its process.
HARD_LIMIT_GRACE_S = 5.0

#: Seconds for which a broker that failed is not asked again.
REST_S = 1.0

# What a broker that is away, full or read-only raises, here and in the layers below.
_AWAY = (KombuError, RedisError, OSError)


class CeleryDispatcher:
    """One Celery message per wake-up, with ids only: messages are seen in Flower, in Redis and in logs.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, app: Celery, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._rests_until = 0.0

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Send the wake-ups; all of a turn's tools at once."""
        for dispatch in dispatches:
            # Each would only wait for the same time-out, one after another, and a sweep sends hundreds.
            if self._clock() < self._rests_until:
                return
            self._try_to_send(dispatch)

    def is_empty(self, queue: str) -> bool:
        """Whether Redis surely holds no message for this queue."""
        if self._clock() < self._rests_until:
            return False
        try:
            with self._app.pool.acquire(block=True, timeout=self._app.conf.broker_pool_acquire_timeout) as connection:
                # One key, for no message has a priority.
                return not connection.default_channel.client.exists(queue)
        except _AWAY as error:
            self._is_away(error)
            return False

    def is_reachable(self) -> bool:
        """Whether the broker answers."""
        try:
            with self._app.connection_for_read() as connection:
                return bool(connection.default_channel.client.ping())
        except _AWAY:
            return False

    def _try_to_send(self, dispatch: Dispatch) -> None:
        try:
            self._send(dispatch)
        except QueueNotFound:
            # Of a tool that TOOLS named when the run began, and names no more.
            where = (dispatch.run_id[:8], dispatch.seq, dispatch.queue)
            log.error("run=%s seq=%s waits: no tool of this deployment works queue %r", *where)
        except _AWAY as error:
            self._is_away(error)

    def _is_away(self, error: Exception) -> None:
        self._rests_until = self._clock() + REST_S
        log.warning("the broker is away, the sweep will send what is due: %s", error)

    def _send(self, dispatch: Dispatch) -> None:
        limit_s = None if dispatch.timeout_s is None else dispatch.timeout_s + HARD_LIMIT_GRACE_S
        what = f"TOOL {dispatch.tool_name}" if dispatch.kind is StepKind.TOOL else "MODEL"
        self._app.send_task(
            TASK,
            kwargs={"run_id": dispatch.run_id, "seq": dispatch.seq},
            queue=dispatch.queue,
            # Another id for each dispatch: an id that was revoked would be refused for ever.
            task_id=f"{dispatch.run_id}:{dispatch.seq}:{dispatch.dispatches}",
            # Few names: each becomes a label of Flower's metrics.
            shadow=f"{TASK}.{dispatch.kind.lower()}",
            argsrepr="()",
            kwargsrepr=f"run={dispatch.run_id[:8]} seq={dispatch.seq} {what}",
            time_limit=limit_s,
            ignore_result=True,
            retry=False,
        )
