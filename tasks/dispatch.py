"""Sending wake-ups through Celery, after the commit. Best effort: what is lost here, the sweep rings for."""

import logging
from collections.abc import Sequence

from celery import Celery
from kombu.exceptions import OperationalError

from app.domain.run import Dispatch
from app.domain.status import StepKind

log = logging.getLogger("durable.dispatch")

TASK = "agent.step"

#: Seconds that a tool gets beyond its soft limit before the pool kills its process.
HARD_LIMIT_GRACE_S = 5.0

# What a broker that is away raises, here and in the layers below.
_AWAY = (OperationalError, OSError)


class CeleryDispatcher:
    """One Celery message per wake-up, with ids only: messages are seen in Flower, in Redis and in logs."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Send the wake-ups; all of a turn's tools at once."""
        try:
            for dispatch in dispatches:
                self._send(dispatch)
        except _AWAY as error:
            # The rest would only wait for the same time-out, one after another.
            log.warning("run=%s not dispatched, the sweep will: %s", dispatches[0].run_id[:8], error)

    def is_empty(self, queue: str) -> bool:
        """Whether Redis surely holds no message for this queue."""
        try:
            with self._app.connection_for_read() as connection:
                return not connection.default_channel.client.exists(queue)
        except _AWAY as error:
            log.warning("the broker is away: %s", error)
            return False

    def is_reachable(self) -> bool:
        """Whether the broker answers."""
        try:
            with self._app.connection_for_read() as connection:
                connection.ensure_connection(max_retries=0, timeout=1)
                return bool(connection.default_channel.client.ping())
        except _AWAY:
            return False

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
