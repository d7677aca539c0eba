"""What becomes of a step whose claim ended without a checkpoint (invariants I9 and I12)."""

import json

import pytest

from app.domain.outcome import Postponed
from app.domain.run import Dispatch
from app.domain.status import ShownStatus, StepKind, StepStatus, StopCode
from app.store.dialect import after
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.builders import (
    approval_rows,
    claimed,
    fresh_owner,
    let_come_due,
    let_lapse,
    opened_turn,
    returned,
    run_row,
    set_step,
    started_model,
    started_tool,
    step_row,
)


def lapse(store: Store, run_id: str, seq: int) -> list[Dispatch]:
    """Let the lease of a step run out, and take the step back as the sweep does."""
    let_lapse(store, run_id, seq)
    [lapsed] = [found for found in store.lapsed_claims(10) if (found.run_id, found.seq) == (run_id, seq)]
    dispatches = store.lapse_step(lapsed)
    assert dispatches is not None
    return dispatches


@pytest.mark.every_database
def test_a_lapsed_read_is_ready_again_with_its_crash_counted_and_is_dispatched(store: Store) -> None:
    run_id, first = started_tool(store, "look")
    [dispatch] = lapse(store, run_id, 2)
    assert (dispatch.seq, dispatch.kind, dispatch.tool_name, dispatch.timeout_s) == (2, StepKind.TOOL, "look", 60.0)
    again = claimed(store, run_id, 2)
    assert (again.lease.attempt, again.crashes, again.tool_use_id) == (2, 1, first.tool_use_id)


@pytest.mark.parametrize("tool", ["put", "fly"], ids=["keyed", "unknown"])
def test_a_lapsed_call_that_may_repeat_is_ready_again(store: Store, tool: str) -> None:
    run_id, _ = started_tool(store, tool)
    assert len(lapse(store, run_id, 2)) == 1
    assert step_row(store, run_id, 2)["status"] == "READY"


def test_a_lapsed_model_call_is_ready_again(store: Store) -> None:
    run_id, _ = started_model(store)
    [dispatch] = lapse(store, run_id, 1)
    assert (dispatch.kind, dispatch.queue) == (StepKind.MODEL, "model")
    assert claimed(store, run_id, 1).crashes == 1


@pytest.mark.every_database
@pytest.mark.parametrize("tool", ["pay", "book"], ids=["unsafe", "verified"])
def test_a_lapsed_call_that_may_not_repeat_waits_in_doubt_and_cannot_be_claimed(store: Store, tool: str) -> None:
    run_id, _ = started_tool(store, tool)
    assert lapse(store, run_id, 2) == []
    row = step_row(store, run_id, 2)
    assert (row["status"], row["crashes"], row["locked_by"]) == ("WAITING", 1, None)
    [question] = approval_rows(store, run_id)
    assert (question["kind"], question["status"]) == ("in_doubt", "PENDING")
    assert tool in question["reason"]
    assert store.claim_step(run_id, 2, fresh_owner()) is None
    assert store.get_run("default", run_id).status is ShownStatus.WAITING


def test_an_unsafe_call_is_never_ready_again_without_a_verdict_whatever_the_sweep_does(store: Store) -> None:
    run_id, _ = started_tool(store, "pay")
    lapse(store, run_id, 2)
    set_step(store, run_id, 2, due_at=after(-1.0), run_at=after(-1.0))
    assert store.expired_waits(10) == [(run_id, 2)]
    store.expire_wait(run_id, 2)
    set_step(store, run_id, 2, due_at=after(-1.0))
    assert (store.ring_due(10), store.lapsed_claims(10), store.ring_unclaimed("tool", 10)) == ([], [], [])
    assert step_row(store, run_id, 2)["status"] == "WAITING"
    assert store.claim_step(run_id, 2, fresh_owner()) is None
    store.decide(run_id, 2, verdict="run", by="ann")
    assert claimed(store, run_id, 2).lease.attempt == 2


def test_every_lapse_of_an_unsafe_call_needs_a_verdict_of_its_own(store: Store) -> None:
    run_id, _ = started_tool(store, "pay")
    for lapses in (1, 2):
        lapse(store, run_id, 2)
        assert step_row(store, run_id, 2)["status"] == "WAITING"
        assert len(approval_rows(store, run_id)) == lapses
        store.decide(run_id, 2, verdict="run", by="ann")
        claimed(store, run_id, 2)


def test_an_unsafe_call_in_doubt_stays_so_even_when_it_was_past_its_time_limit(store: Store) -> None:
    run_id, _ = started_tool(store, "pay")
    owner = step_row(store, run_id, 2)["locked_by"]
    store.lapse_step(Lapsed(run_id, 2, owner, when_due=False, outlived=True))
    assert step_row(store, run_id, 2)["status"] == "WAITING"


def test_a_lease_that_ran_out_says_nothing_about_the_time_limit_and_the_call_is_made_again(store: Store) -> None:
    """A node that was killed one second into a call of ten is noticed a whole lease later."""
    run_id, _ = started_tool(store, "look")
    set_step(store, run_id, 2, started_at=after(-100.0), timeout_s=10.0)
    [dispatch] = lapse(store, run_id, 2)
    assert (dispatch.seq, dispatch.kind) == (2, StepKind.TOOL)
    assert claimed(store, run_id, 2).lease.attempt == 2


def test_each_dispatch_of_a_step_has_a_number_of_its_own(store: Store) -> None:
    """It is part of the Celery task's id, and an id that was revoked is refused for ever."""
    run_id, _ = started_tool(store, "look")
    numbers = [lapse(store, run_id, 2)[0].dispatches]
    claim = claimed(store, run_id, 2)
    numbers += [dispatch.dispatches for dispatch in store.postpone_step(claim.lease, Postponed(0.0, 1, "drain"))]
    let_come_due(store, run_id, 2)
    numbers += [dispatch.dispatches for dispatch in store.ring_due(10)]
    assert numbers == [2, 3, 4]


def test_a_call_that_the_pool_ended_at_its_limit_becomes_an_error_that_the_model_reads(store: Store) -> None:
    run_id, _ = started_tool(store, "look")
    owner = step_row(store, run_id, 2)["locked_by"]
    [dispatch] = store.lapse_step(Lapsed(run_id, 2, owner, when_due=False, outlived=True)) or []
    assert (dispatch.seq, dispatch.kind) == (3, StepKind.MODEL)
    past = store.read_history(run_id, 3).steps[1]
    assert (past.status, past.is_error) == (StepStatus.ERROR, True)
    assert json.loads(past.result or "").startswith("timed out: look did not return within 60 s")


def test_a_step_that_keeps_killing_its_worker_ends_the_run_as_crash_loop(store: Store) -> None:
    run_id, _ = started_model(store)
    for _ in range(store.max_crashes - 1):
        assert len(lapse(store, run_id, 1)) == 1
        claimed(store, run_id, 1)
    assert lapse(store, run_id, 1) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code) == (ShownStatus.FAILED, "crash_loop")
    assert (view.stop_code, view.error_message) == ("crash_loop", "step 1 ended its worker 5 times")
    assert store.timeline(run_id)[0].status is StepStatus.ERROR


def test_a_crash_loop_waits_for_started_siblings_and_cancels_the_others(store: Store) -> None:
    run_id = opened_turn(store, "look", "look", "look", "wipe")
    claimed(store, run_id, 2)
    sibling = claimed(store, run_id, 3)
    set_step(store, run_id, 2, crashes=store.max_crashes - 1)
    lapse(store, run_id, 2)
    assert [s.status.value for s in store.timeline(run_id)[1:]] == ["ERROR", "STARTED", "CANCELLED", "CANCELLED"]
    assert store.finish_tool_step(sibling.lease, returned()) == []
    assert store.get_run("default", run_id).error_code == "crash_loop"


@pytest.mark.parametrize(("tool", "note"), [("look", None), ("pay", "in_doubt")])
def test_a_lapse_in_a_stopping_run_ends_it_and_notes_what_is_in_doubt(
    store: Store, tool: str, note: str | None
) -> None:
    run_id, _ = started_tool(store, tool)
    store.stop_run(run_id, StopCode.CANCELLED)
    assert lapse(store, run_id, 2) == []
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
    row = step_row(store, run_id, 2)
    assert (row["status"], row["error_code"]) == ("CANCELLED", note)


def test_a_lapse_leaves_started_siblings_alone(store: Store) -> None:
    run_id = opened_turn(store, "look", "look")
    claimed(store, run_id, 2)
    sibling = claimed(store, run_id, 3)
    lapse(store, run_id, 2)
    assert store.finish_tool_step(sibling.lease, returned()) == []


def test_a_lease_with_time_left_does_not_lapse(store: Store) -> None:
    run_id, claim = started_tool(store)
    before = run_row(store, run_id)
    assert store.lapsed_claims(10) == []
    assert store.lapse_step(Lapsed(run_id, 2, claim.lease.owner)) is None
    assert run_row(store, run_id) == before


def test_a_renewed_lease_does_not_lapse_though_the_sweep_saw_it_run_out(store: Store) -> None:
    run_id, claim = started_tool(store)
    let_lapse(store, run_id, 2)
    [lapsed] = store.lapsed_claims(10)
    store.renew_leases([claim.lease], [claim.lease])
    assert store.lapse_step(lapsed) is None


def test_a_step_lapses_once_for_each_claim(store: Store) -> None:
    run_id, _ = started_tool(store)
    let_lapse(store, run_id, 2)
    [lapsed] = store.lapsed_claims(10)
    assert store.lapse_step(lapsed) is not None
    assert store.lapse_step(lapsed) is None
    claimed(store, run_id, 2)
    let_lapse(store, run_id, 2)
    assert store.lapse_step(lapsed) is None
    assert step_row(store, run_id, 2)["crashes"] == 1


def test_a_parent_that_saw_its_child_die_takes_the_step_back_before_the_lease_is_over(store: Store) -> None:
    run_id = opened_turn(store, "look")
    claimed(store, run_id, 2, "node-a.1f/4321/task-9/aa")
    assert store.lapse_step(Lapsed(run_id, 2, "/432/task-9/", when_due=False)) is None
    assert store.lapse_step(Lapsed(run_id, 2, "/4321/task-8/", when_due=False)) is None
    assert store.lapse_step(Lapsed(run_id, 2, "/321/task-9/", when_due=False)) is None
    assert store.lapse_step(Lapsed(run_id, 2, "/4321/task-9/", when_due=False)) is not None
