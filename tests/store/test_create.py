"""Starting runs."""

import threading

import pytest
from sqlalchemy import func, select

from app.domain.replay import replay
from app.domain.run import NewRun
from app.domain.status import ShownStatus, StepKind, StepStatus
from app.store.store import Store
from app.store.tables import agent_version
from tests.support.builders import AGENT, claimed, new_run, run_row, step_row


@pytest.mark.every_database
def test_a_new_run_has_one_model_step_that_may_be_claimed_at_once(store: Store) -> None:
    run_id, dispatch = store.create_run(new_run(metadata={"ticket": 7}))
    view = store.get_run("default", run_id)
    assert (view.status, view.steps, view.open_steps, view.metadata) == (ShownStatus.QUEUED, 1, 1, {"ticket": 7})
    assert (dispatch.run_id, dispatch.seq, dispatch.kind, dispatch.queue) == (run_id, 1, StepKind.MODEL, "model")
    [step] = store.timeline(run_id)
    assert (step.status, step.attempt, step.turn, step.dispatches) == (StepStatus.READY, 0, 1, 1)
    assert (view.deadline_at - view.created_at).total_seconds() == pytest.approx(3600, abs=1)
    assert claimed(store, run_id, 1).kind is StepKind.MODEL


def test_a_new_run_is_not_rung_again_before_its_dispatch_counts_as_lost(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    row = step_row(store, run_id, 1)
    assert 10.0 <= (row["due_at"] - row["created_at"]).total_seconds() <= 12.6
    assert store.ring_due(10) == []


def test_runs_of_one_agent_share_its_version_row(store: Store) -> None:
    first, _ = store.create_run(new_run())
    second, _ = store.create_run(new_run(input="another"))
    with store.engine.begin() as connection:
        assert connection.execute(select(func.count()).select_from(agent_version)).scalar_one() == 1
    assert run_row(store, first)["agent_version_id"] == run_row(store, second)["agent_version_id"] == AGENT.id


def test_the_frozen_agent_and_the_input_come_back_as_they_went_in(store: Store) -> None:
    said = [{"type": "text", "text": "NUL \x00, emoji 😀, lone \ud800"}]
    run_id, _ = store.create_run(new_run(input=said))
    history = store.read_history(run_id, 1)
    assert history.agent == AGENT
    assert history.steps == ()
    assert history.tokens_left == 100_000
    assert replay(history.input, history.steps) == [{"role": "user", "content": said}]


def test_two_runs_of_a_new_agent_can_start_at_the_same_moment(postgres_store: Store) -> None:
    barrier, started = threading.Barrier(4), []

    def start(new: NewRun) -> None:
        barrier.wait(10)
        started.append(postgres_store.create_run(new)[0])

    threads = [threading.Thread(target=start, args=[new_run(input=str(n))]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(set(started)) == 4
