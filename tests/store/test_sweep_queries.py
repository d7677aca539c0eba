"""What the sweep finds, and that it always pushes what it rings."""

import pytest

from app.domain.status import StepKind, StopCode
from app.store.dialect import after
from app.store.store import Store
from tests.support.builders import (
    claimed,
    new_run,
    opened_turn,
    set_step,
    started_tool,
    step_row,
)


@pytest.mark.every_database
def test_a_step_whose_dispatch_counts_as_lost_is_rung_and_pushed_with_growing_waits(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    for dispatches, least in ((2, 20), (3, 40), (4, 60), (5, 60)):
        set_step(store, run_id, 1, due_at=after(-1.0))
        [dispatch] = store.ring_due(10)
        assert (dispatch.seq, dispatch.kind, dispatch.queue, dispatch.dispatches) == (
            1,
            StepKind.MODEL,
            "model",
            dispatches,
        )
        wait = (step_row(store, run_id, 1)["due_at"] - step_row(store, run_id, 1)["created_at"]).total_seconds()
        assert least <= wait <= least * 1.25 + 1
        assert store.ring_due(10) == []
    assert claimed(store, run_id, 1).lease.attempt == 1


def test_the_longest_due_are_rung_first_and_no_more_than_the_limit(store: Store) -> None:
    runs = [store.create_run(new_run())[0] for _ in range(4)]
    for age, run_id in enumerate(runs):
        set_step(store, run_id, 1, due_at=after(-1.0 - age))
    assert {d.run_id for d in store.ring_due(2)} == set(runs[2:])
    assert {d.run_id for d in store.ring_due(10)} == set(runs[:2])


def test_started_waiting_and_final_steps_are_not_rung(store: Store) -> None:
    run_id = opened_turn(store, "look", "wipe")
    claimed(store, run_id, 2)
    for seq in (2, 3):
        set_step(store, run_id, seq, due_at=after(-1.0), run_at=after(-5.0))
    assert store.ring_due(10) == []
    assert store.ring_unclaimed("tool", 10) == []
    assert [lapsed.seq for lapsed in store.lapsed_claims(10)] == [2]
    assert store.expired_waits(10) == [(run_id, 3)]


def test_steps_of_a_stopped_run_are_not_rung(store: Store) -> None:
    run_id = opened_turn(store, "look")
    store.stop_run(run_id, StopCode.CANCELLED)
    assert (store.ring_due(10), store.unclaimed_queues(), store.expired_waits(10)) == ([], [], [])


def test_lapsed_claims_name_the_owner_and_come_longest_first(store: Store) -> None:
    runs = [started_tool(store) for _ in range(3)]
    for age, (run_id, _) in enumerate(runs):
        set_step(store, run_id, 2, due_at=after(-1.0 - age))
    found = store.lapsed_claims(2)
    assert [(lapsed.run_id, lapsed.owner) for lapsed in found] == [
        (run_id, claim.lease.owner) for run_id, claim in reversed(runs[1:])
    ]


def test_what_was_dispatched_over_a_second_ago_is_rung_again_when_the_broker_is_empty(store: Store) -> None:
    old = opened_turn(store, "look")
    fresh = opened_turn(store, "look")
    backing_off = opened_turn(store, "look")
    set_step(store, old, 2, run_at=after(-2.0))
    set_step(store, backing_off, 2, run_at=after(-2.0), dispatches=0)
    assert store.unclaimed_queues() == ["tool"]
    assert store.ring_unclaimed("model", 10) == []
    assert [(d.run_id, d.dispatches) for d in store.ring_unclaimed("tool", 10)] == [(old, 2)]
    assert step_row(store, fresh, 2)["dispatches"] == 1


def test_healthy_runs_are_no_orphans(store: Store) -> None:
    store.create_run(new_run())
    opened_turn(store, "wipe")
    started_tool(store)
    assert store.orphaned_runs(10) == []
