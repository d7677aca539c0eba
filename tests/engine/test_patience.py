"""A database that is away for a moment costs neither a model call nor a tool's result."""

from typing import Any

import pytest

from app.domain.errors import DatabaseAway
from app.domain.run import Dispatch
from app.domain.status import ShownStatus, StepStatus
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.submit import submit
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import tool
from tests.support.engine import task, worker

ran: list[int] = []


@tool(effect="UNSAFE")
def pay() -> str:
    """Pay."""
    ran.append(1)
    return "paid"


class Flaky(Store):
    """A store whose database is away for the next `away` checkpoints."""

    def __init__(self, store: Store, away: int) -> None:
        super().__init__(store.engine, lease_s=store.lease_s)
        self.away = away

    def _verb(self, work: Any) -> Any:
        if self.away > 0:
            self.away -= 1
            raise DatabaseAway("the server closed the connection")
        return super()._verb(work)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def test_what_is_finished_is_written_down_as_soon_as_the_database_is_back(store: Store) -> None:
    model = ScriptedModel().then_tool_use("a", "pay", {}, 10, 5).then_text("paid", 20, 5)
    flaky, pauses = Flaky(store, 0), list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)

    runtime = worker(flaky, model, [pay], pause=pause)
    run_id = submit(runtime, task(runtime))
    flaky.away = 7
    run = drive(runtime, run_id)

    assert run.status is ShownStatus.SUCCEEDED
    assert len(pauses) == 7
    assert (model.calls, len(ran)) == (2, 1)
    assert [(step.attempt, step.crashes) for step in store.timeline(run_id)] == [(1, 0)] * 3


def test_patience_ends_with_the_lease_and_the_step_is_left_to_the_sweep(store: Store) -> None:
    model = ScriptedModel().then_text("lost", 20, 5)
    clock = [1000.0]

    def pause(seconds: float) -> None:
        clock[0] += seconds

    flaky = Flaky(store, 0)
    runtime = worker(flaky, model, [pay], pause=pause)
    runtime.keeper.clock = lambda: clock[0]
    run_id = submit(runtime, task(runtime))
    flaky.away = 10_000
    opened: list[Dispatch] = advance(runtime, run_id, 1, pid=1, task_id="-")

    assert opened == []
    assert 1000.0 + store.lease_s - 1.0 <= clock[0] <= 1000.0 + store.lease_s
    assert store.timeline(run_id)[0].status is StepStatus.STARTED
