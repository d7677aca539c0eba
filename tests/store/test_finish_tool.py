"""A tool's result closes its step; whoever closes the last one of the turn opens the next model step."""

import pytest

from app.domain.status import ShownStatus, StepKind, StepStatus
from app.store.store import Store
from tests.support.builders import claimed, let_deadline_pass, opened_turn, returned, run_row, set_run, started_tool


@pytest.mark.every_database
def test_the_last_result_of_a_turn_opens_the_next_model_step_and_the_others_open_nothing(store: Store) -> None:
    run_id = opened_turn(store, "look", "put", "pay")
    for seq in (4, 2):
        assert store.finish_tool_step(claimed(store, run_id, seq).lease, returned()) == []
    [dispatch] = store.finish_tool_step(claimed(store, run_id, 3).lease, returned())
    assert (dispatch.seq, dispatch.kind, dispatch.queue, dispatch.tool_name) == (5, StepKind.MODEL, "model", None)
    step = store.timeline(run_id)[4]
    assert (step.turn, step.status) == (2, StepStatus.READY)


def test_a_failure_is_an_error_that_the_model_will_read(store: Store) -> None:
    run_id, claim = started_tool(store)
    [dispatch] = store.finish_tool_step(claim.lease, returned("no such day", is_error=True, error_code="raised"))
    assert dispatch.seq == 3
    step = store.timeline(run_id)[1]
    assert (step.status, step.is_error, step.result, step.error_code, step.latency_ms) == (
        StepStatus.ERROR,
        True,
        '"no such day"',
        "raised",
        3,
    )
    past = store.read_history(run_id, 3).steps[1]
    assert (past.is_error, past.result) == (True, '"no such day"')


def test_a_step_cap_that_is_reached_ends_the_run_instead_of_asking_again(store: Store) -> None:
    run_id, claim = started_tool(store, step_cap=2)
    assert store.finish_tool_step(claim.lease, returned()) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.steps) == (ShownStatus.FAILED, "step_cap", 2)


def test_a_result_after_the_deadline_is_kept_and_ends_the_run(store: Store) -> None:
    run_id, claim = started_tool(store)
    let_deadline_pass(store, run_id)
    assert store.finish_tool_step(claim.lease, returned("late")) == []
    assert store.get_run("default", run_id).status is ShownStatus.TIMED_OUT
    assert store.timeline(run_id)[1].result == '"late"'


def test_each_checkpoint_grows_the_version_of_the_run(store: Store) -> None:
    run_id = opened_turn(store, "look", "look")
    before = run_row(store, run_id)["version"]
    store.finish_tool_step(claimed(store, run_id, 2).lease, returned())
    assert run_row(store, run_id)["version"] == before + 1


def test_a_waiting_sibling_keeps_the_turn_open(store: Store) -> None:
    run_id = opened_turn(store, "look", "wipe")
    assert store.finish_tool_step(claimed(store, run_id, 2).lease, returned()) == []
    assert store.get_run("default", run_id).status is ShownStatus.WAITING
    [dispatch] = store.decide(run_id, 3, verdict="reject", by="ann")
    assert (dispatch.seq, dispatch.kind) == (4, StepKind.MODEL)


def test_a_result_in_a_run_whose_budget_was_spent_meanwhile_ends_it(store: Store) -> None:
    run_id, claim = started_tool(store)
    set_run(store, run_id, token_budget=100)
    assert store.finish_tool_step(claim.lease, returned()) == []
    assert store.get_run("default", run_id).error_code == "token_budget"
