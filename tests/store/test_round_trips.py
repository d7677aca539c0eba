"""What a step costs at the socket, counted between the store and Postgres (section 8 of the design)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.domain.run import Claim
from app.store.dialect import open_engine
from app.store.migrations import upgrade
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    calls_answer,
    claimed,
    fresh_owner,
    new_run,
    opened_turn,
    returned,
    started_model,
    text_answer,
)
from tests.support.contention import GIVE_UP_S, Contender
from tests.support.services import PostgresServer
from tests.support.wire import Traffic, Wire, wire_to

WARM = 7  # psycopg prepares a statement at its sixth execution, which costs one more round trip, once


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    with wire_to(postgres_url) as wire:
        yield wire


@pytest.fixture
def far(wire: Wire) -> Iterator[Store]:
    """A store with one connection, which leads through the wire."""
    store = Store(open_engine(wire.url, pool_size=1))
    yield store
    store.close()


def measured(wire: Wire, prepare: Callable[[], Callable[[], object]]) -> Traffic:
    """The traffic of a call on a warm connection; `prepare` makes a new one each time."""
    for _ in range(WARM):
        call = prepare()
        wire.traffic.clear()
        call()
    return wire.traffic


@pytest.mark.parametrize("step", ["model", "tool"])
def test_a_claim_is_one_round_trip(wire: Wire, far: Store, postgres_store: Store, step: str) -> None:
    def prepare() -> Callable[[], object]:
        if step == "tool":
            run_id, seq = opened_turn(postgres_store, "look"), 2
        else:
            run_id, seq = postgres_store.create_run(new_run())[0], 1
        return lambda: claimed(far, run_id, seq)

    traffic = measured(wire, prepare)
    assert (traffic.round_trips, traffic.commands) == (1, ["UPDATE 1"])


def test_a_claim_that_finds_nothing_is_one_round_trip(wire: Wire, far: Store, postgres_store: Store) -> None:
    run_id, _ = started_model(postgres_store)
    traffic = measured(wire, lambda: lambda: far.claim_step(run_id, 1, fresh_owner()))
    assert (traffic.round_trips, traffic.commands) == (1, ["UPDATE 0"])


def test_an_answer_that_opens_three_tools_is_at_most_six_round_trips(
    wire: Wire, far: Store, postgres_store: Store
) -> None:
    def prepare() -> Callable[[], object]:
        _, claim = started_model(postgres_store)
        return lambda: far.finish_model_step(claim.lease, calls_answer("look", "put", "pay"), AGENT)

    traffic = measured(wire, prepare)
    assert traffic.commands == ["BEGIN", "SELECT 1", "UPDATE 1", "INSERT 0 3", "UPDATE 1", "COMMIT"]
    assert traffic.round_trips <= 6


def test_an_answer_that_ends_the_run_is_at_most_six_round_trips(wire: Wire, far: Store, postgres_store: Store) -> None:
    def prepare() -> Callable[[], object]:
        _, claim = started_model(postgres_store)
        return lambda: far.finish_model_step(claim.lease, text_answer(), AGENT)

    assert measured(wire, prepare).round_trips <= 6


@pytest.mark.parametrize(("siblings", "commits"), [(["look"], 1), ([], 1)], ids=["not the last", "the last"])
def test_a_tool_result_is_at_most_six_round_trips_and_one_commit(
    wire: Wire, far: Store, postgres_store: Store, siblings: list[str], commits: int
) -> None:
    def prepare() -> Callable[[], object]:
        run_id = opened_turn(postgres_store, "look", *siblings)
        claim = claimed(postgres_store, run_id, 2)
        return lambda: far.finish_tool_step(claim.lease, returned())

    traffic = measured(wire, prepare)
    assert traffic.round_trips <= 6
    assert traffic.commands.count("COMMIT") == commits


def test_a_tick_of_the_keeper_is_two_round_trips_and_one_when_nothing_is_due(
    wire: Wire, far: Store, postgres_store: Store
) -> None:
    leases = [started_model(postgres_store)[1].lease for _ in range(5)]
    assert measured(wire, lambda: lambda: far.renew_leases(leases, leases)).round_trips <= 2
    assert measured(wire, lambda: lambda: far.renew_leases(leases, [])).round_trips == 1


def test_the_cost_of_a_step_does_not_grow_with_the_length_of_its_run(
    wire: Wire, far: Store, postgres_store: Store
) -> None:
    run_id, _ = postgres_store.create_run(new_run())
    costs = []
    for turn in range(WARM + 8):
        if turn % 8 == 0:
            run_id, _ = postgres_store.create_run(new_run())
        seq = turn % 8 + 1
        wire.traffic.clear()
        claim = claimed(far, run_id, seq)
        far.finish_model_step(claim.lease, text_answer(stop_reason="pause_turn"), AGENT)
        costs.append(wire.traffic.round_trips)
    assert costs[-6:] == [7] * 6


@pytest.fixture(scope="module")
def unconfirming(postgres_server: PostgresServer) -> Iterator[Store]:
    """A server of its own where a commit that waits to be safe waits for ever: for a standby that does not exist.

    `synchronous_commit = off` is what lets a commit pass, and the same setting decides whether it waits for the disk.
    """
    server = type(postgres_server)()
    url = server.create_database("unconfirming")
    upgrade(url)
    store = Store(open_engine(url))
    yield store
    store.close()
    server.close()


@contextmanager
def safe_commits_blocked(store: Store) -> Iterator[None]:
    """From here on every commit that waits to be safe hangs; afterwards they go on."""
    _wait_for_standby(store, "nobody")
    probes: list[Contender] = []
    try:
        give_up = time.monotonic() + GIVE_UP_S
        while hanging(store) == 0:  # the server takes the setting over when it gets to it
            assert time.monotonic() < give_up
            probes.append(Contender(lambda: store.create_run(new_run())))
            probes[-1].wait(0.2)
        yield
    finally:
        _wait_for_standby(store, "")
        for probe in probes:
            probe.join()


def _wait_for_standby(store: Store, name: str) -> None:
    with store.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        connection.exec_driver_sql("SELECT pg_reload_conf()")


def hanging(store: Store) -> int:
    """How many commits wait to be safe."""
    with store.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        return int(connection.exec_driver_sql(query).scalar_one())


def test_the_commit_of_a_model_claim_does_not_wait_for_the_disk_and_those_of_tool_claims_and_checkpoints_do(
    unconfirming: Store,
) -> None:
    store = unconfirming
    model_run, _ = store.create_run(new_run())
    tool_run = opened_turn(store, "look")
    with safe_commits_blocked(store):
        assert hanging(store) == 1
        claim = Contender(lambda: store.claim_step(model_run, 1, fresh_owner())).join()
        assert isinstance(claim, Claim)
        assert hanging(store) == 1
        tool = Contender(lambda: store.claim_step(tool_run, 2, fresh_owner()))
        answer = Contender(lambda: store.finish_model_step(claim.lease, text_answer(), AGENT))
        give_up = time.monotonic() + GIVE_UP_S
        while hanging(store) < 3:
            assert time.monotonic() < give_up, "a commit that must be safe did not wait"
            answer.wait(0.02)
    assert isinstance(tool.join(), Claim)
    assert answer.join() == []
