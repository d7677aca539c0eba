"""Everything a process needs to work on runs, in one value, built in app/bootstrap.py."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Protocol

from app.domain.pricing import PriceBook
from app.domain.run import Dispatch
from app.engine.keeper import Keeper
from app.llm.retrying import Retrying
from app.store.store import Store
from app.tools.registry import Registry


class Dispatcher(Protocol):
    """Carries wake-ups. It may lose, double or delay them: the claim decides, and the sweep rings again."""

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Send the wake-ups; a broker that is away is logged, never raised."""
        ...

    def is_empty(self, queue: str) -> bool:
        """Whether the broker surely holds no message for this queue; False when it cannot say."""
        ...


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Runtime:
    """The wiring of one process.

    Attributes:
        process: name of this process in owners, `node.nonce`; new for every process start.
        tool_result_max_chars: longer tool results are cut.
        tool_unavailable_s: how long a step waits for a worker that has its tool.
        today: the date that prices are looked up for.
        pause: called with seconds, to wait for a database that is away.
    """

    store: Store
    dispatcher: Dispatcher
    tools: Registry
    model: Retrying
    prices: PriceBook
    keeper: Keeper
    process: str
    tool_result_max_chars: int = 100_000
    tool_unavailable_s: float = 300.0
    sweep_limit: int = 200
    today: Callable[[], date] = field(default=_today)
    pause: Callable[[float], None] = field(default=time.sleep)

    @property
    def node(self) -> str:
        """Name of the worker machine, as logs show it."""
        return self.process.rsplit(".", 1)[0]
