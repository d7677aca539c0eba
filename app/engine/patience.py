"""A database that is away for a moment must not cost a model call that was paid for, or a tool's result."""

import logging
from collections.abc import Callable
from typing import TypeVar

from app.domain.errors import DatabaseAway
from app.engine.keeper import Held
from app.engine.runtime import Runtime

log = logging.getLogger("durable.step")
T = TypeVar("T")

RETRY_S = 0.5


def patiently(runtime: Runtime, held: Held, ask: Callable[[], T]) -> T:
    """Ask the store until it answers, for as long as the lease holds. Asking twice is safe: every write is fenced.

    Raises:
        DatabaseAway: the lease ends before the database is back.
    """
    told = False
    while True:
        try:
            return ask()
        except DatabaseAway as away:
            if runtime.keeper.clock() + RETRY_S >= held.ends_at:
                raise
            if not told:
                log.warning("run=%s seq=%s waits for the database: %s", held.lease.run_id[:8], held.lease.seq, away)
            told = True
            runtime.pause(RETRY_S)
