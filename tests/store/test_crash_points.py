"""The fault injector kills a verb at every boundary, and the database is then as after a real death."""

import itertools

import pytest

from app.domain.status import StepStatus
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    calls_answer,
    fresh_owner,
    new_run,
    returned,
    run_row,
    started_model,
    started_tool,
)
from tests.support.crash import CrashPoints, SimulatedCrash
from tests.support.invariants import check_invariants


@pytest.mark.every_database
def test_a_checkpoint_that_dies_at_any_boundary_is_there_whole_or_not_at_all(store: Store) -> None:
    outcomes = []
    for at in itertools.count(1):
        run_id, claim = started_model(store)
        before = (run_row(store, run_id), store.timeline(run_id))
        with CrashPoints(store, at=at) as points:
            try:
                store.finish_model_step(claim.lease, calls_answer("look", "wipe"), AGENT)
            except SimulatedCrash:
                outcomes.append((run_row(store, run_id), store.timeline(run_id)) == before)
        check_invariants(store.engine)
        if not points.crashed:
            break
    assert points.seen == [
        "before UPDATE run_step SET",
        "before INSERT INTO run_step",
        "before INSERT INTO approval",
        "before UPDATE run SET",
        "before COMMIT",
        "after COMMIT of UPDATE run SET",
    ]
    assert outcomes == [True] * 5 + [False]


def test_a_claim_that_dies_after_its_commit_leaves_the_step_started(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    with CrashPoints(store) as points:
        assert store.claim_step(run_id, 1, fresh_owner()) is not None
    boundaries = points.count
    for at in range(1, boundaries + 1):
        run_id, _ = store.create_run(new_run())
        with CrashPoints(store, at=at) as points, pytest.raises(SimulatedCrash):
            store.claim_step(run_id, 1, fresh_owner())
        started = at == boundaries
        assert points.seen[-1].startswith("after COMMIT") is started
        assert (store.timeline(run_id)[0].status is StepStatus.STARTED) is started


def test_the_store_works_on_after_a_crash_and_its_connections_hold_nothing(postgres_store: Store) -> None:
    _, claim = started_tool(postgres_store)
    with CrashPoints(postgres_store, at=2), pytest.raises(SimulatedCrash):
        postgres_store.finish_tool_step(claim.lease, returned())
    with postgres_store.engine.connect() as connection:
        held = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND xact_start IS NOT NULL"
        )
        assert connection.exec_driver_sql(held).scalar_one() == 0
    assert len(postgres_store.finish_tool_step(claim.lease, returned())) == 1


def test_reading_passes_no_boundary(store: Store) -> None:
    run_id, _ = started_model(store)
    with CrashPoints(store) as points:
        store.timeline(run_id)
        store.read_history(run_id, 1)
        store.get_run("default", run_id)
        store.lapsed_claims(5)
    assert points.seen == []
