"""The sweep: what a lost message or a dead worker left behind is found and goes on."""

import logging
from collections.abc import Sequence

import pytest

from app.domain.run import Dispatch
from app.domain.status import ShownStatus, StepStatus
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.engine.sweep import sweep, sweep_orphans
from app.llm.scripted import ScriptedModel
from app.store.dialect import after
from app.store.store import Store
from tests.support.builders import (
    claimed,
    let_deadline_pass,
    let_lapse,
    let_question_expire,
    opened_turn,
    set_run,
    set_step,
    started_tool,
)
from tests.support.engine import task, worker


class Bell:
    """A dispatcher that remembers what it sent; its broker holds nothing, or does not say."""

    def __init__(self, *, empty: bool = False) -> None:
        self.sent: list[tuple[str, int]] = []
        self.empty = empty
        self.asked: list[str] = []

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        self.sent += [(dispatch.run_id, dispatch.seq) for dispatch in dispatches]

    def is_empty(self, queue: str) -> bool:
        self.asked.append(queue)
        return self.empty


def sweeper(store: Store, bell: Bell) -> Runtime:
    return worker(store, ScriptedModel(), dispatcher=bell)


def test_a_lost_wake_up_is_sent_again_and_then_left_alone_until_it_counts_as_lost(store: Store) -> None:
    bell = Bell()
    runtime = sweeper(store, bell)
    run_id = submit(runtime, task(runtime))
    bell.sent.clear()
    assert sweep(runtime) == 0
    set_step(store, run_id, 1, due_at=after(-1.0))
    assert sweep(runtime) == 1
    assert sweep(runtime) == 0
    assert bell.sent == [(run_id, 1)]


@pytest.mark.parametrize("empty", [True, False])
def test_an_empty_queue_is_filled_at_once_with_what_was_dispatched_over_a_second_ago(store: Store, empty: bool) -> None:
    bell = Bell(empty=empty)
    runtime = sweeper(store, bell)
    fresh, old = (submit(runtime, task(runtime)) for _ in range(2))
    set_step(store, old, 1, run_at=after(-2.0))
    bell.sent.clear()
    sweep(runtime)
    assert bell.asked == ["model"]
    assert bell.sent == ([(old, 1)] if empty else [])
    assert fresh not in [run_id for run_id, _ in bell.sent]


def test_a_lapsed_claim_is_taken_back_and_rung_for_and_a_live_one_is_not(store: Store) -> None:
    bell = Bell()
    lapsed, _ = started_tool(store, "look")
    live, _ = started_tool(store, "look")
    let_lapse(store, lapsed, 2)
    assert sweep(sweeper(store, bell)) == 1
    assert bell.sent == [(lapsed, 2)]
    assert [store.timeline(run_id)[1].status for run_id in (lapsed, live)] == [StepStatus.READY, StepStatus.STARTED]


def test_overdue_runs_time_out_and_expired_questions_are_answered(store: Store) -> None:
    overdue, _ = store.create_run(task(sweeper(store, Bell())))
    let_deadline_pass(store, overdue)
    asked = opened_turn(store, "wipe")
    set_step(store, asked, 2, due_at=after(-1.0))
    let_question_expire(store, asked, 2)
    bell = Bell()
    assert sweep(sweeper(store, bell)) == 2
    assert store.get_run("default", overdue).status is ShownStatus.TIMED_OUT
    assert store.timeline(asked)[1].error_code == "expired"
    assert bell.sent == [(asked, 3)]


def test_a_run_past_its_deadline_ends_though_its_worker_is_gone(store: Store) -> None:
    bell = Bell()
    runtime = sweeper(store, bell)
    run_id, _ = started_tool(store, "pay")
    let_deadline_pass(store, run_id)
    sweep(runtime)
    assert store.get_run("default", run_id).finished_at is None  # the worker may still be there, and has a result
    let_lapse(store, run_id, 2)
    sweep(runtime)
    assert store.get_run("default", run_id).status is ShownStatus.TIMED_OUT
    assert (store.timeline(run_id)[1].error_code, bell.sent) == ("in_doubt", [])
    assert sweep(runtime) == 0


def test_a_sweep_takes_no_more_of_each_kind_than_is_set_and_the_next_takes_the_rest(store: Store) -> None:
    bell = Bell()
    runtime = worker(store, ScriptedModel(), dispatcher=bell, sweep_limit=2)
    late = [submit(runtime, task(runtime)) for _ in range(3)]
    lapsed = [started_tool(store, "look")[0] for _ in range(3)]
    for run_id in late:
        set_step(store, run_id, 1, due_at=after(-1.0))
    for run_id in lapsed:
        let_lapse(store, run_id, 2)
    bell.sent.clear()
    assert [sweep(runtime) for _ in range(3)] == [4, 2, 0]
    assert sorted(bell.sent) == sorted([(run_id, 1) for run_id in late] + [(run_id, 2) for run_id in lapsed])


def test_a_row_that_can_not_be_handled_does_not_hold_up_the_others(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [started_tool(store, "look")[0] for _ in range(3)]
    for run_id in runs:
        let_lapse(store, run_id, 2)
    lapse = store.lapse_step
    monkeypatch.setattr(store, "lapse_step", lambda lapsed: 1 / 0 if lapsed.run_id == runs[0] else lapse(lapsed))
    bell = Bell()
    with caplog.at_level(logging.ERROR):
        assert sweep(sweeper(store, bell)) == 2
    assert {run_id for run_id, _ in bell.sent} == set(runs[1:])
    assert "could not sweep" in caplog.text


def test_an_active_run_without_an_open_step_ends(store: Store) -> None:
    unaudited = Store(store.engine)
    run_id, _ = unaudited.create_run(task(sweeper(store, Bell())))
    claimed(unaudited, run_id, 1)
    set_step(store, run_id, 1, status="CANCELLED", due_at=None, finished_at=after(0.0))
    set_run(store, run_id, open_steps=0)
    assert sweep_orphans(sweeper(unaudited, Bell())) == 1
    run = store.get_run("default", run_id)
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "orphaned")
