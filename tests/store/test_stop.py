"""Stopping a run in every state it can be in."""

import pytest

from app.domain.errors import RunNotFound
from app.domain.outcome import Cut
from app.domain.status import RunStatus, ShownStatus, StepStatus, StopCode
from app.domain.usage import Usage
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    approval_rows,
    calls_answer,
    claimed,
    fresh_owner,
    let_deadline_pass,
    new_run,
    opened_turn,
    returned,
    run_row,
    set_run,
    started_model,
    started_tool,
    text_answer,
)


@pytest.mark.every_database
def test_a_run_that_nobody_claimed_is_terminal_at_once_and_can_never_be_claimed(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    assert store.stop_run(run_id, StopCode.CANCELLED, "not needed") is RunStatus.CANCELLED
    view = store.get_run("default", run_id)
    assert (view.status, view.stop_code, view.stop_reason, view.error_code) == (
        ShownStatus.CANCELLED,
        "cancelled",
        "not needed",
        "cancelled",
    )
    assert store.claim_step(run_id, 1, fresh_owner()) is None
    assert store.timeline(run_id)[0].status is StepStatus.CANCELLED


def test_a_started_call_keeps_the_run_open_until_it_is_cut_with_its_usage(store: Store) -> None:
    run_id, claim = started_model(store)
    assert store.stop_run(run_id, StopCode.CANCELLED) is RunStatus.ACTIVE
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING
    assert store.cut_step(claim.lease, Cut(1, 5, Usage(9, 1), 3)) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.wasted_tokens, view.tokens_used) == (ShownStatus.CANCELLED, 10, 0)


def test_an_answer_that_was_under_way_is_kept_and_counted_but_opens_nothing(store: Store) -> None:
    run_id, claim = started_model(store)
    store.stop_run(run_id, StopCode.CANCELLED)
    assert store.finish_model_step(claim.lease, calls_answer("look"), AGENT) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.tokens_used, view.steps, view.output) == (ShownStatus.CANCELLED, 100, 1, None)


def test_a_final_answer_that_comes_after_the_stop_does_not_undo_it(store: Store) -> None:
    run_id, claim = started_model(store)
    store.stop_run(run_id, StopCode.CANCELLED)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED


def test_a_late_tool_result_is_kept_and_the_last_one_ends_the_run(store: Store) -> None:
    run_id = opened_turn(store, "look", "look", "look")
    first, second = claimed(store, run_id, 2), claimed(store, run_id, 3)
    assert store.stop_run(run_id, StopCode.CANCELLED) is RunStatus.ACTIVE
    assert [s.status.value for s in store.timeline(run_id)[1:]] == ["STARTED", "STARTED", "CANCELLED"]
    assert store.finish_tool_step(second.lease, returned("late")) == []
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING
    assert store.finish_tool_step(first.lease, returned("later")) == []
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
    assert [s.result for s in store.timeline(run_id)[1:]] == ['"later"', '"late"', None]


def test_waiting_steps_are_cancelled_and_their_questions_closed(store: Store) -> None:
    run_id = opened_turn(store, "wipe", "look")
    assert store.stop_run(run_id, StopCode.CANCELLED) is RunStatus.CANCELLED
    assert {s.status for s in store.timeline(run_id)[1:]} == {StepStatus.CANCELLED}
    assert [question["status"] for question in approval_rows(store, run_id)] == ["CLOSED"]


@pytest.mark.every_database
def test_a_terminal_run_stays_as_it_is(store: Store) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    before = run_row(store, run_id)
    assert store.stop_run(run_id, StopCode.CANCELLED) is RunStatus.SUCCEEDED
    assert run_row(store, run_id) == before


def test_the_first_stop_wins(store: Store) -> None:
    run_id, claim = started_model(store)
    store.stop_run(run_id, StopCode.DEADLINE, "first")
    assert store.stop_run(run_id, StopCode.CANCELLED, "second") is RunStatus.ACTIVE
    store.cut_step(claim.lease, Cut(1, 5))
    assert store.stop_run(run_id, StopCode.CANCELLED, "third") is RunStatus.TIMED_OUT
    view = store.get_run("default", run_id)
    assert (view.status, view.stop_code, view.stop_reason) == (ShownStatus.TIMED_OUT, "deadline", "first")


def test_an_unknown_run_is_not_found(store: Store) -> None:
    with pytest.raises(RunNotFound):
        store.stop_run("00000000-0000-4000-8000-000000000000", StopCode.CANCELLED)


@pytest.mark.parametrize("code", StopCode)
def test_every_stop_code_ends_a_run_in_its_own_status(store: Store, code: StopCode) -> None:
    run_id, _ = store.create_run(new_run())
    expected = {StopCode.CANCELLED: RunStatus.CANCELLED, StopCode.DEADLINE: RunStatus.TIMED_OUT}
    assert store.stop_run(run_id, code) is expected.get(code, RunStatus.FAILED)
    assert store.get_run("default", run_id).error_code == code.value


def test_overdue_runs_are_found_until_somebody_stops_them(store: Store) -> None:
    ready, _ = store.create_run(new_run())
    started, _ = started_tool(store)
    store.create_run(new_run())
    for run_id in (started, ready):
        let_deadline_pass(store, run_id)
    assert set(store.overdue_runs(10)) == {ready, started}
    assert len(store.overdue_runs(1)) == 1
    for run_id in (started, ready):
        store.stop_run(run_id, StopCode.DEADLINE)
    assert store.overdue_runs(10) == []
    assert store.get_run("default", ready).status is ShownStatus.TIMED_OUT


def test_an_orphan_is_found_and_ended_whatever_its_counter_says(store: Store) -> None:
    unaudited = Store(store.engine)
    for counter in (0, 1):
        run_id, claim = started_model(unaudited)
        unaudited.finish_model_step(claim.lease, text_answer(), AGENT)
        set_run(unaudited, run_id, status="ACTIVE", finished_at=None, output=None, open_steps=counter)
        assert unaudited.orphaned_runs(10) == [run_id]
        assert unaudited.stop_run(run_id, StopCode.ORPHANED) is RunStatus.FAILED
        assert unaudited.orphaned_runs(10) == []


def test_a_run_whose_counter_lost_a_step_is_ended_as_an_orphan_too(store: Store) -> None:
    unaudited = Store(store.engine)
    run_id, _ = unaudited.create_run(new_run())
    set_run(unaudited, run_id, open_steps=0)
    assert unaudited.orphaned_runs(10) == [run_id]
    assert unaudited.stop_run(run_id, StopCode.ORPHANED) is RunStatus.FAILED
    assert unaudited.timeline(run_id)[0].status is StepStatus.CANCELLED
