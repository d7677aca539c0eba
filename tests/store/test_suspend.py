"""A started step waits for a person."""

import pytest

from app.domain.outcome import Suspended
from app.domain.status import ShownStatus, StepStatus, StopCode
from app.store.store import Store
from tests.support.builders import approval_rows, claimed, let_question_expire, opened_turn, started_tool, step_row

QUESTION = Suspended("approval", "May it?", 60.0)


@pytest.mark.every_database
def test_a_suspended_step_waits_with_its_question_and_holds_no_lease(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    assert store.suspend_step(claim.lease, QUESTION) == []
    row = step_row(store, run_id, 2)
    assert (row["status"], row["locked_by"]) == ("WAITING", None)
    [question] = approval_rows(store, run_id)
    assert (question["kind"], question["status"], question["reason"]) == ("approval", "PENDING", "May it?")
    assert (question["expires_at"] - question["created_at"]).total_seconds() == pytest.approx(60, abs=1)
    assert (row["due_at"] - question["expires_at"]).total_seconds() == pytest.approx(0, abs=1)
    assert store.get_run("default", run_id).status is ShownStatus.WAITING


def test_a_question_without_expiry_is_due_at_the_deadline(store: Store) -> None:
    run_id, claim = started_tool(store, "pay", timeout_s=500.0)
    store.suspend_step(claim.lease, Suspended("in_doubt", "What happened?"))
    [question] = approval_rows(store, run_id)
    assert question["expires_at"] is None
    due_in = (step_row(store, run_id, 2)["due_at"] - question["created_at"]).total_seconds()
    assert due_in == pytest.approx(500, abs=5)


def test_a_step_cannot_suspend_itself_out_of_a_stop(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    store.stop_run(run_id, StopCode.CANCELLED)
    assert store.suspend_step(claim.lease, QUESTION) == []
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
    assert store.timeline(run_id)[1].status is StepStatus.CANCELLED
    assert approval_rows(store, run_id) == []


def test_a_question_that_ran_out_is_an_error_that_the_model_reads(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    store.suspend_step(claim.lease, QUESTION)
    assert store.expired_waits(10) == []
    let_question_expire(store, run_id, 2)
    assert store.expired_waits(10) == [(run_id, 2)]
    [dispatch] = store.expire_wait(run_id, 2)
    assert dispatch.seq == 3
    step = store.timeline(run_id)[1]
    assert (step.status, step.is_error, step.error_code) == (StepStatus.ERROR, True, "expired")
    assert approval_rows(store, run_id)[0]["status"] == "EXPIRED"
    assert store.expire_wait(run_id, 2) == []


def test_a_question_that_has_time_left_does_not_expire_and_is_looked_at_later(store: Store) -> None:
    run_id = opened_turn(store, "wipe")
    before = step_row(store, run_id, 2)["due_at"]
    assert store.expire_wait(run_id, 2) == []
    assert step_row(store, run_id, 2)["due_at"] > before
    assert store.timeline(run_id)[1].status is StepStatus.WAITING


def test_an_expiry_with_open_siblings_opens_nothing_yet(store: Store) -> None:
    run_id = opened_turn(store, "pay", "look")
    store.suspend_step(claimed(store, run_id, 2).lease, QUESTION)
    let_question_expire(store, run_id, 2)
    assert store.expire_wait(run_id, 2) == []
    assert store.timeline(run_id)[1].status is StepStatus.ERROR


def test_a_step_can_be_asked_about_again_after_a_verdict(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    store.suspend_step(claim.lease, QUESTION)
    store.decide(run_id, 2, verdict="run", by="ann")
    store.suspend_step(claimed(store, run_id, 2).lease, QUESTION)
    assert [question["status"] for question in approval_rows(store, run_id)] == ["DECIDED", "PENDING"]
