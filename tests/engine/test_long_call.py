"""In real time: a model call that outlasts its lease several times over."""

import threading
from collections.abc import Iterator

import pytest

from app.domain.status import ShownStatus
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.keeper import Keeper
from app.engine.submit import submit
from app.engine.sweep import sweep
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.scripted import ScriptedModel
from app.store.dialect import open_engine
from app.store.store import Store
from tests.support.engine import task, worker


@pytest.fixture
def short_leases(postgres_url: str) -> Iterator[Store]:
    store = Store(open_engine(postgres_url), lease_s=1.0)
    yield store
    store.close()


def test_a_call_of_three_leases_is_made_once_and_nobody_else_can_claim_it(
    short_leases: Store, postgres_url: str
) -> None:
    keepers_own = Store(open_engine(postgres_url, pool_size=1), lease_s=1.0)
    model, started, over = ScriptedModel(), threading.Event(), threading.Event()
    answer = ScriptedModel().then_text("at last", 10, 5)

    def slow(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        started.set()
        cut = threading.Event()
        cutoff.on_cut(cut.set)
        assert not cut.wait(3.2), cutoff.reason
        return answer.complete(request, cutoff)

    model.then_call(slow)
    first = worker(short_leases, model, keeper=Keeper(keepers_own))
    other = worker(short_leases, model)
    run_id = submit(first, task(first))
    taken: list[object] = []

    def contend() -> None:
        assert started.wait(10)
        while not over.wait(0.05):
            sweep(other)
            taken.extend(advance(other, run_id, 1, pid=2, task_id="other"))

    contender = threading.Thread(target=contend)
    contender.start()
    try:
        run = drive(first, run_id)
    finally:
        over.set()
        contender.join(10)
        keepers_own.close()

    assert run.status is ShownStatus.SUCCEEDED
    assert (model.calls, taken) == (1, [])
    (step,) = short_leases.timeline(run_id)
    assert (step.attempt, step.crashes) == (1, 0)
