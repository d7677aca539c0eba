"""Starting a run: written down first, rung for second, or not at all."""

from collections.abc import Sequence

import pytest

from app.domain.agent import AgentVersion
from app.domain.run import Dispatch, NewRun
from app.domain.status import ShownStatus, StepKind
from app.engine.drive import LocalDispatcher, drive
from app.engine.submit import UnpricedModel, submit
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from tests.support.engine import let_everything_lapse, task, worker


class _Looking(LocalDispatcher):
    """Looks, before it sends a wake-up, at what a worker that heard it at once would find."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.found: list[ShownStatus] = []

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        super().dispatch(dispatches)
        self.found += [self._store.get_run(None, dispatch.run_id).status for dispatch in dispatches]


def test_a_run_is_committed_before_its_first_wake_up_is_sent(store: Store) -> None:
    bell = _Looking(store)
    runtime = worker(store, ScriptedModel(), dispatcher=bell)
    run_id = submit(runtime, task(runtime))
    assert bell.found == [ShownStatus.QUEUED]
    assert list(bell.waiting) == [Dispatch(run_id, 1, StepKind.MODEL, "model", dispatches=1)]


def test_a_run_whose_first_wake_up_is_lost_is_worked_off_all_the_same(store: Store) -> None:
    lost = worker(store, ScriptedModel())
    run_id = submit(lost, task(lost))
    let_everything_lapse(store)
    other = worker(store, ScriptedModel().then_text("done"))
    assert drive(other, run_id).output == "done"


def _of_unpriced_model(cost_budget_nano: int) -> NewRun:
    return NewRun(AgentVersion("house-model", 100), "Go.", 1000, 60.0, 10, cost_budget_nano=cost_budget_nano)


@pytest.mark.parametrize("cost_budget_nano", [0, 1_000_000])
def test_a_budget_that_could_not_be_kept_leaves_nothing_behind(store: Store, cost_budget_nano: int) -> None:
    runtime = worker(store, ScriptedModel())
    with pytest.raises(UnpricedModel, match="house-model"):
        submit(runtime, _of_unpriced_model(cost_budget_nano))
    assert store.list_runs("default") == []
    assert isinstance(runtime.dispatcher, LocalDispatcher)
    assert not runtime.dispatcher.waiting
