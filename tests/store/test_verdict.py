"""A verdict settles the question about a waiting step; the first one wins."""

import pytest

from app.domain.errors import AlreadyDecided, IllegalTransition, RunNotFound
from app.domain.outcome import Suspended
from app.domain.status import ShownStatus, StepKind, StepStatus, StopCode
from app.store.dialect import after
from app.store.store import Store
from tests.support.builders import (
    approval_rows,
    claimed,
    let_deadline_pass,
    let_question_expire,
    opened_turn,
    returned,
    run_row,
    set_step,
    started_tool,
    step_row,
)

SOME_RUN = "00000000-0000-4000-8000-000000000000"


def waiting(store: Store, *siblings: str, expires_s: float | None = 60.0) -> str:
    """A run whose step 2 waits."""
    run_id = opened_turn(store, "pay", *siblings)
    store.suspend_step(claimed(store, run_id, 2).lease, Suspended("in_doubt", "What happened?", expires_s))
    return run_id


@pytest.mark.every_database
def test_run_makes_the_step_claimable_again(store: Store) -> None:
    run_id = waiting(store)
    [dispatch] = store.decide(run_id, 2, verdict="run", by="ann", why="checked")
    assert (dispatch.seq, dispatch.kind, dispatch.tool_name) == (2, StepKind.TOOL, "pay")
    assert claimed(store, run_id, 2).lease.attempt == 2
    [question] = approval_rows(store, run_id)
    assert (question["status"], question["verdict"], question["decided_by"], question["decided_why"]) == (
        "DECIDED",
        "run",
        "ann",
        "checked",
    )
    assert question["decided_at"] is not None


def test_done_closes_the_step_with_the_result_that_the_person_gives(store: Store) -> None:
    run_id = waiting(store)
    [dispatch] = store.decide(run_id, 2, verdict="done", by="ann", result='"paid, receipt 7"')
    assert (dispatch.seq, dispatch.kind) == (3, StepKind.MODEL)
    step = store.timeline(run_id)[1]
    assert (step.status, step.result, step.is_error) == (StepStatus.DONE, '"paid, receipt 7"', False)


def test_reject_is_an_error_that_the_model_reads_with_the_reason(store: Store) -> None:
    run_id = waiting(store)
    [dispatch] = store.decide(run_id, 2, verdict="reject", by="ann", why="too dear")
    assert dispatch.seq == 3
    step = store.timeline(run_id)[1]
    assert (step.status, step.is_error, step.error_code) == (StepStatus.ERROR, True, "rejected")
    assert step.result == '"rejected by ann: too dear"'


def test_fail_ends_the_run_and_cancels_the_other_steps(store: Store) -> None:
    run_id = waiting(store, "look", "wipe")
    assert store.decide(run_id, 2, verdict="fail", by="ann", why="wrong account") == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.stop_reason) == (
        ShownStatus.FAILED,
        "failed_by_reviewer",
        "wrong account",
    )
    assert {s.status for s in store.timeline(run_id)[1:]} == {StepStatus.CANCELLED}
    assert [question["status"] for question in approval_rows(store, run_id)].count("DECIDED") == 1


def test_fail_waits_for_a_started_sibling(store: Store) -> None:
    run_id = waiting(store, "look")
    sibling = claimed(store, run_id, 3)
    store.decide(run_id, 2, verdict="fail", by="ann")
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING
    store.finish_tool_step(sibling.lease, returned())
    assert store.get_run("default", run_id).error_code == "failed_by_reviewer"


def test_a_verdict_with_an_open_sibling_opens_nothing_yet(store: Store) -> None:
    run_id = waiting(store, "look")
    assert store.decide(run_id, 2, verdict="reject", by="ann") == []
    [dispatch] = store.finish_tool_step(claimed(store, run_id, 3).lease, returned())
    assert dispatch.seq == 4


@pytest.mark.every_database
@pytest.mark.parametrize("first", ["run", "reject", "fail"])
def test_the_first_verdict_stands(store: Store, first: str) -> None:
    run_id = waiting(store)
    store.decide(run_id, 2, verdict=first, by="ann")
    before = (run_row(store, run_id), approval_rows(store, run_id))
    with pytest.raises(AlreadyDecided):
        store.decide(run_id, 2, verdict="reject", by="bob")
    assert (run_row(store, run_id), approval_rows(store, run_id)) == before


def test_a_verdict_that_comes_after_the_expiry_is_refused_before_any_sweep_has_seen_it(store: Store) -> None:
    run_id = waiting(store)
    let_question_expire(store, run_id, 2)
    with pytest.raises(AlreadyDecided):
        store.decide(run_id, 2, verdict="run", by="ann")
    assert step_row(store, run_id, 2)["status"] == "WAITING"


def test_a_verdict_on_a_stopped_run_is_refused(store: Store) -> None:
    run_id = waiting(store)
    store.stop_run(run_id, StopCode.CANCELLED)
    with pytest.raises(AlreadyDecided):
        store.decide(run_id, 2, verdict="run", by="ann")


def test_a_verdict_on_a_step_that_does_not_wait_is_refused(store: Store) -> None:
    run_id, _ = started_tool(store)
    for seq in (1, 2, 9):
        with pytest.raises(AlreadyDecided):
            store.decide(run_id, seq, verdict="run", by="ann")


def test_an_unknown_run_is_not_found(store: Store) -> None:
    with pytest.raises(RunNotFound):
        store.decide(SOME_RUN, 2, verdict="run", by="ann")


@pytest.mark.parametrize(("verdict", "result"), [("maybe", None), ("done", None), ("run", '"x"'), ("reject", '"x"')])
def test_a_verdict_that_makes_no_sense_writes_nothing(store: Store, verdict: str, result: str | None) -> None:
    run_id = waiting(store)
    with pytest.raises(IllegalTransition):
        store.decide(run_id, 2, verdict=verdict, by="ann", result=result)
    assert approval_rows(store, run_id)[0]["status"] == "PENDING"


def test_what_people_write_may_hold_any_character(store: Store) -> None:
    run_id = waiting(store)
    store.decide(run_id, 2, verdict="reject", by="ann\x00", why="no\x00pe \udc80")
    [question] = approval_rows(store, run_id)
    assert (question["decided_by"], question["decided_why"]) == ("ann\ufffd", "no\ufffdpe \ufffd")
    other = waiting(store)
    store.stop_run(other, StopCode.CANCELLED, "why\x00not")
    assert store.get_run("default", other).stop_reason == "why\ufffdnot"


def test_a_verdict_after_the_deadline_does_not_carry_the_run_past_it(store: Store) -> None:
    run_id = waiting(store, expires_s=None)
    let_deadline_pass(store, run_id)
    store.decide(run_id, 2, verdict="reject", by="ann")
    assert store.get_run("default", run_id).status is ShownStatus.TIMED_OUT


def test_a_ready_verdict_is_rung_like_any_other_step(store: Store) -> None:
    run_id = waiting(store)
    store.decide(run_id, 2, verdict="run", by="ann")
    set_step(store, run_id, 2, due_at=after(-1.0))
    assert [d.seq for d in store.ring_due(10)] == [2]
