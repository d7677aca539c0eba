"""A step is given back: after a durable wait, or at once when its worker drains."""

import pytest

from app.domain.outcome import Postponed
from app.domain.status import ShownStatus, StepStatus, StopCode
from app.domain.usage import Usage
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    claimed,
    fresh_owner,
    let_come_due,
    opened_turn,
    started_model,
    started_tool,
    step_row,
    text_answer,
)


@pytest.mark.every_database
def test_a_postponed_step_is_ready_but_not_claimable_before_its_time_and_rung_at_it(store: Store) -> None:
    run_id, claim = started_model(store)
    assert store.postpone_step(claim.lease, Postponed(20.0, 1, "overloaded_error")) == []
    row = step_row(store, run_id, 1)
    assert (row["status"], row["locked_by"], row["tries"], row["error_code"]) == ("READY", None, 1, "overloaded_error")
    assert (row["due_at"] - row["run_at"]).total_seconds() == pytest.approx(0, abs=0.1)
    assert row["due_at"] >= row["run_at"]
    assert store.claim_step(run_id, 1, fresh_owner()) is None
    assert store.ring_due(10) == []
    let_come_due(store, run_id, 1)
    [dispatch] = store.ring_due(10)
    assert (dispatch.run_id, dispatch.seq, dispatch.dispatches) == (run_id, 1, 2)
    again = claimed(store, run_id, 1)
    assert (again.tries, again.crashes, again.lease.attempt) == (1, 0, 2)


def test_a_step_handed_back_on_drain_can_be_claimed_at_once_and_counts_no_crash(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    [dispatch] = store.postpone_step(claim.lease, Postponed(0.0, 0, "drain"))
    assert (dispatch.seq, dispatch.tool_name, dispatch.queue, dispatch.timeout_s) == (2, "pay", "tool", 60.0)
    again = claimed(store, run_id, 2)
    assert (again.crashes, again.lease.attempt) == (0, 2)


def test_the_waste_of_each_postponed_claim_is_added_up_once(store: Store) -> None:
    run_id, claim = started_model(store)
    store.postpone_step(claim.lease, Postponed(5.0, 1, "overloaded_error", Usage(10, 2), 5))
    let_come_due(store, run_id, 1)
    store.postpone_step(claimed(store, run_id, 1).lease, Postponed(5.0, 2, "overloaded_error", Usage(10, 2), 5))
    view = store.get_run("default", run_id)
    assert (view.wasted_tokens, view.wasted_cost_nano, view.tokens_used) == (24, 10, 0)
    assert store.timeline(run_id)[0].wasted_tokens == 24


def test_a_wait_that_would_pass_the_deadline_ends_the_run_now(store: Store) -> None:
    run_id, claim = started_model(store, timeout_s=60.0)
    assert store.postpone_step(claim.lease, Postponed(61.0, 1, "rate_limit_error", Usage(3, 1), 2)) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.wasted_tokens) == (ShownStatus.TIMED_OUT, "deadline", 4)
    assert store.timeline(run_id)[0].status is StepStatus.CANCELLED


def test_a_wait_past_the_deadline_cancels_what_is_ready_and_waits_for_what_is_started(store: Store) -> None:
    run_id = opened_turn(store, "look", "look", "wipe", "look", timeout_s=60.0)
    first, started = claimed(store, run_id, 2), claimed(store, run_id, 3)
    store.postpone_step(first.lease, Postponed(100.0, 0, "x"))
    assert [s.status.value for s in store.timeline(run_id)[1:]] == ["CANCELLED", "STARTED", "CANCELLED", "CANCELLED"]
    assert store.get_run("default", run_id).stop_code == "deadline"
    store.postpone_step(started.lease, Postponed(0.0, 0, "drain"))
    assert store.get_run("default", run_id).status is ShownStatus.TIMED_OUT


@pytest.mark.parametrize("wait_s", [0.0, 5.0])
def test_a_step_cannot_postpone_itself_out_of_a_stop(store: Store, wait_s: float) -> None:
    run_id, claim = started_model(store)
    store.stop_run(run_id, StopCode.CANCELLED)
    assert store.postpone_step(claim.lease, Postponed(wait_s, 1, "drain", Usage(3, 1), 2)) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.wasted_tokens) == (ShownStatus.CANCELLED, 4)


def test_the_reason_of_a_wait_is_gone_once_the_step_is_done(store: Store) -> None:
    run_id, claim = started_model(store)
    store.postpone_step(claim.lease, Postponed(0.0, 1, "drain"))
    store.finish_model_step(claimed(store, run_id, 1).lease, text_answer(), AGENT)
    assert store.timeline(run_id)[0].error_code is None
