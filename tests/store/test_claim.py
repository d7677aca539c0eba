"""Who gets a step."""

import pytest

from app.domain.status import ShownStatus, StepKind, StepStatus
from app.store.dialect import after
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    approval_rows,
    claimed,
    fresh_owner,
    new_run,
    opened_turn,
    returned,
    set_step,
    started_model,
    started_tool,
    step_row,
    text_answer,
)


@pytest.mark.every_database
def test_a_claim_starts_the_step_and_carries_what_performing_it_needs(store: Store) -> None:
    run_id = opened_turn(store, "pay")
    owner = fresh_owner()
    claim = claimed(store, run_id, 2, owner)
    assert (claim.lease.run_id, claim.lease.seq, claim.lease.attempt, claim.lease.owner) == (run_id, 2, 1, owner)
    assert (claim.kind, claim.turn, claim.tool_name, claim.effect) == (StepKind.TOOL, 1, "pay", "UNSAFE")
    assert (claim.tool_input, claim.timeout_s, claim.tries, claim.crashes) == ('{"day":"now"}', 60.0, 0, 0)
    assert claim.tool_use_id
    assert claim.tool_use_id.startswith("toolu_")
    assert claim.seconds_left == pytest.approx(3600, abs=5)
    row = step_row(store, run_id, 2)
    assert (row["status"], row["locked_by"], row["attempt"]) == ("STARTED", owner, 1)
    assert (row["due_at"] - row["started_at"]).total_seconds() == pytest.approx(30, abs=1)


def test_a_started_step_cannot_be_claimed_again_even_after_its_lease_ran_out(store: Store) -> None:
    run_id, _ = started_model(store)
    assert store.claim_step(run_id, 1, fresh_owner()) is None
    set_step(store, run_id, 1, due_at=after(-100.0))
    assert store.claim_step(run_id, 1, fresh_owner()) is None


def test_a_step_whose_time_has_not_come_cannot_be_claimed(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    set_step(store, run_id, 1, run_at=after(5.0))
    assert store.claim_step(run_id, 1, fresh_owner()) is None
    set_step(store, run_id, 1, run_at=after(-0.001))
    assert store.claim_step(run_id, 1, fresh_owner()) is not None


def test_finished_waiting_and_unknown_steps_cannot_be_claimed(store: Store) -> None:
    run_id = opened_turn(store, "look", "wipe")
    tool = claimed(store, run_id, 2)
    store.finish_tool_step(tool.lease, returned())
    for seq in (1, 2, 3, 99):
        assert store.claim_step(run_id, seq, fresh_owner()) is None
    assert approval_rows(store, run_id)[0]["status"] == "PENDING"


def test_nothing_of_a_terminal_run_can_be_claimed(store: Store) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    assert store.get_run("default", run_id).status is ShownStatus.SUCCEEDED
    assert [store.claim_step(run_id, seq, fresh_owner()) for seq in (1, 2)] == [None, None]


def test_the_attempt_counts_claims(store: Store) -> None:
    run_id, first = started_tool(store)
    set_step(store, run_id, 2, status=StepStatus.READY, locked_by=None)
    assert (first.lease.attempt, claimed(store, run_id, 2).lease.attempt) == (1, 2)


def test_a_claim_clears_the_suspicion_about_an_earlier_owner(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    set_step(store, run_id, 1, suspect_at=after(-1.0))
    claimed(store, run_id, 1)
    assert step_row(store, run_id, 1)["suspect_at"] is None


def test_history_holds_the_final_steps_before_a_step_and_the_tokens_that_are_left(store: Store) -> None:
    run_id = opened_turn(store, "look", "put")
    for seq in (2, 3):
        store.finish_tool_step(claimed(store, run_id, seq).lease, returned(f"result {seq}"))
    history = store.read_history(run_id, 4)
    assert [(step.seq, step.kind, step.turn) for step in history.steps] == [
        (1, StepKind.MODEL, 1),
        (2, StepKind.TOOL, 1),
        (3, StepKind.TOOL, 1),
    ]
    assert [step.result for step in history.steps[1:]] == ['"result 2"', '"result 3"']
    assert history.tokens_left == 100_000 - 100
