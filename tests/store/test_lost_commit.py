"""The database commits and the answer gets lost on the way: each verb is run once more and finds out what is true."""

from collections.abc import Callable, Iterator

import pytest

from app.domain.errors import LeaseLost
from app.domain.outcome import Postponed, Suspended
from app.domain.status import RunStatus, ShownStatus, StepStatus, StopCode
from app.store.claim import claim_step
from app.store.dialect import open_engine
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    calls_answer,
    claimed,
    new_run,
    returned,
    run_row,
    started_model,
    started_tool,
)
from tests.support.invariants import AuditedStore, check_invariants
from tests.support.wire import Wire, wire_to


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    with wire_to(postgres_url) as wire:
        yield wire


@pytest.fixture
def far(wire: Wire) -> Iterator[Store]:
    """A store behind the wire."""
    store = Store(open_engine(wire.url))
    yield store
    store.close()


@pytest.fixture
def near(postgres_store: AuditedStore) -> Store:
    """A store with a good connection to the same database."""
    return postgres_store


def test_a_checkpoint_is_counted_once(wire: Wire, far: Store, near: Store) -> None:
    run_id, claim = started_model(near)
    wire.lose_next_commit_answer()
    assert far.finish_model_step(claim.lease, calls_answer("look", "put"), AGENT) == []
    assert wire.lost.is_set()
    check_invariants(near.engine)
    view = near.get_run("default", run_id)
    assert (view.tokens_used, view.steps, view.open_steps) == (100, 3, 2)


def test_a_tool_result_is_recorded_once(wire: Wire, far: Store, near: Store) -> None:
    run_id, claim = started_tool(near)
    wire.lose_next_commit_answer()
    assert far.finish_tool_step(claim.lease, returned()) == []
    assert wire.lost.is_set()
    assert [step.status for step in near.timeline(run_id)][1:] == [StepStatus.DONE, StepStatus.READY]
    check_invariants(near.engine)


def test_a_run_is_started_once_and_its_id_comes_back(wire: Wire, far: Store, near: Store) -> None:
    wire.lose_next_commit_answer()
    run_id, dispatch = far.create_run(new_run())
    assert wire.lost.is_set()
    assert (dispatch.run_id, dispatch.seq) == (run_id, 1)
    assert [view.id for view in near.list_runs("default")] == [run_id]
    assert len(near.timeline(run_id)) == 1
    assert claimed(near, run_id, 1).lease.attempt == 1


def test_a_stop_is_found_to_have_happened(wire: Wire, far: Store, near: Store) -> None:
    run_id, _ = near.create_run(new_run())
    wire.lose_next_commit_answer()
    assert far.stop_run(run_id, StopCode.CANCELLED) is RunStatus.CANCELLED
    assert wire.lost.is_set()
    assert near.get_run("default", run_id).status is ShownStatus.CANCELLED


@pytest.mark.parametrize("verb", ["postpone", "suspend"])
def test_a_step_that_was_given_back_is_not_given_back_twice(wire: Wire, far: Store, near: Store, verb: str) -> None:
    run_id, claim = started_tool(near, "pay")
    wire.lose_next_commit_answer()
    give_back: Callable[[], object] = {
        "postpone": lambda: far.postpone_step(claim.lease, Postponed(5.0, 0, "x")),
        "suspend": lambda: far.suspend_step(claim.lease, Suspended("approval", "x", 60.0)),
    }[verb]
    with pytest.raises(LeaseLost):
        give_back()
    assert wire.lost.is_set()
    check_invariants(near.engine)
    assert run_row(near, run_id)["open_steps"] == 1


def test_a_claim_whose_answer_was_lost_is_ours_and_not_taken_twice(postgres_url: str, near: Store) -> None:
    run_id, _ = near.create_run(new_run())
    owner = "node-a.1f/1/task/x"
    with near.engine.begin() as connection:
        first = claim_step(connection, run_id, 1, owner=owner, lease_s=30.0, again=False)
        again = claim_step(connection, run_id, 1, owner=owner, lease_s=30.0, again=True)
        other = claim_step(connection, run_id, 1, owner="node-b.2/1/task/y", lease_s=30.0, again=True)
    assert first is not None
    assert again is not None
    assert (again.lease, other) == (first.lease, None)


def test_a_store_outlives_the_death_of_all_its_connections(postgres_store: Store) -> None:
    run_id, claim = started_tool(postgres_store)
    with postgres_store.engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'durable-agent'"
        )
    assert len(postgres_store.finish_tool_step(claim.lease, returned())) == 1
    assert claimed(postgres_store, run_id, 3).lease.attempt == 1
