"""Two at once on real connections: each order has one outcome, and the invariants hold in both."""

from collections.abc import Iterator

import pytest

from app.domain.errors import AlreadyDecided, LeaseLost
from app.domain.outcome import Postponed, Suspended
from app.domain.run import Claim
from app.domain.status import RunStatus, ShownStatus, StepKind, StopCode
from app.store.dialect import after, open_engine
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    approval_rows,
    calls_answer,
    claimed,
    fresh_owner,
    let_lapse,
    new_run,
    opened_turn,
    returned,
    run_row,
    set_step,
    started_model,
    started_tool,
    step_row,
)
from tests.support.contention import (
    Contender,
    at_once,
    in_this_order,
    rows_held,
    run_held,
    step_held,
    wait_until_blocked,
)
from tests.support.invariants import check_invariants


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """Many connections; the invariants are checked at the end."""
    store = Store(open_engine(postgres_url, pool_size=52))
    yield store
    check_invariants(store.engine)
    store.close()


def cancel(store: Store, run_id: str) -> object:
    return store.stop_run(run_id, StopCode.CANCELLED)


@pytest.mark.parametrize("round_", range(20))
def test_of_two_that_finish_a_turn_together_exactly_one_opens_the_next_model_step(store: Store, round_: int) -> None:
    run_id = opened_turn(store, "look", "look")
    leases = [claimed(store, run_id, seq).lease for seq in (2, 3)]
    opened = at_once([lambda lease=lease: store.finish_tool_step(lease, returned()) for lease in leases])  # type: ignore[misc]
    assert sorted(len(dispatches) for dispatches in opened) == [0, 1]
    assert [(step.seq, step.kind) for step in store.timeline(run_id)][3:] == [(4, StepKind.MODEL)]


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_the_later_of_two_finishers_sees_what_the_earlier_one_closed(
    store: Store, postgres_url: str, order: tuple[int, int]
) -> None:
    run_id = opened_turn(store, "look", "look")
    leases = {seq: claimed(store, run_id, seq).lease for seq in (2, 3)}
    calls = [lambda seq=seq: store.finish_tool_step(leases[seq], returned()) for seq in order]
    first, second = in_this_order(store, postgres_url, run_held(run_id), calls)
    assert first == []
    assert [dispatch.seq for dispatch in second] == [4]


def test_eight_that_finish_a_turn_together_open_one_model_step(store: Store) -> None:
    run_id = opened_turn(store, *["look"] * 8)
    leases = [claimed(store, run_id, seq).lease for seq in range(2, 10)]
    opened = at_once([lambda lease=lease: store.finish_tool_step(lease, returned()) for lease in leases])  # type: ignore[misc]
    assert sum(len(dispatches) for dispatches in opened) == 1
    assert run_row(store, run_id)["next_seq"] == 11


def test_of_fifty_claims_of_one_step_exactly_one_wins(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    claims = at_once([lambda: store.claim_step(run_id, 1, fresh_owner())] * 50)
    [won] = [claim for claim in claims if claim is not None]
    assert isinstance(won, Claim)
    row = step_row(store, run_id, 1)
    assert (row["attempt"], row["locked_by"]) == (1, won.lease.owner)


def test_a_claim_before_a_stop_is_left_to_end_and_one_after_it_finds_nothing(store: Store, postgres_url: str) -> None:
    for claim_first in (True, False):
        run_id, _ = store.create_run(new_run())
        calls = [lambda: store.claim_step(run_id, 1, fresh_owner()), lambda: cancel(store, run_id)]  # noqa: B023
        if not claim_first:
            calls.reverse()
        outcomes = in_this_order(store, postgres_url, step_held(run_id, 1), calls)
        if claim_first:
            claim, status = outcomes
            assert isinstance(claim, Claim)
            assert status is RunStatus.ACTIVE
            assert step_row(store, run_id, 1)["status"] == "STARTED"
            store.postpone_step(claim.lease, Postponed(0.0, 0, "drain"))
        else:
            assert outcomes == [RunStatus.CANCELLED, None]
        assert store.get_run("default", run_id).status is ShownStatus.CANCELLED


def test_a_renewal_does_not_wait_for_a_stop_and_is_refused_once_the_stop_is_committed(
    store: Store, postgres_url: str
) -> None:
    run_id, claim = started_model(store)
    set_step(store, run_id, 1, due_at=after(5.0))
    with rows_held(postgres_url, step_held(run_id, 1)):
        [report] = Contender(lambda: store.renew_leases([claim.lease], [claim.lease])).join()
        assert report.held
        assert report.lease_left_s < 6
    with rows_held(postgres_url, run_held(run_id)):
        stop = Contender(lambda: cancel(store, run_id))
        wait_until_blocked(store, 1)
        [before] = store.renew_leases([claim.lease], [claim.lease])
    assert stop.join() is RunStatus.ACTIVE
    assert (before.stop_code, before.lease_left_s > 20) == (None, True)
    set_step(store, run_id, 1, due_at=after(5.0))
    [behind] = store.renew_leases([claim.lease], [claim.lease])
    assert (behind.held, behind.stop_code, behind.lease_left_s < 6) == (True, "cancelled", True)


@pytest.mark.parametrize("stop_first", [True, False])
def test_a_suspension_before_a_stop_is_cancelled_by_it_and_one_after_it_is_not_possible(
    store: Store, postgres_url: str, stop_first: bool
) -> None:
    run_id, claim = started_tool(store, "pay")
    calls = [lambda: store.suspend_step(claim.lease, Suspended("approval", "?", 60.0)), lambda: cancel(store, run_id)]
    if stop_first:
        calls.reverse()
    outcomes = in_this_order(store, postgres_url, run_held(run_id), calls)
    assert outcomes == ([RunStatus.ACTIVE, []] if stop_first else [[], RunStatus.CANCELLED])
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
    assert [question["status"] for question in approval_rows(store, run_id)] == ([] if stop_first else ["CLOSED"])


@pytest.mark.parametrize("stop_first", [True, False])
@pytest.mark.parametrize("wait_s", [0.0, 30.0])
def test_a_postponement_before_a_stop_is_cancelled_by_it_and_one_after_it_ends_the_step(
    store: Store, postgres_url: str, stop_first: bool, wait_s: float
) -> None:
    run_id, claim = started_model(store)
    calls = [lambda: store.postpone_step(claim.lease, Postponed(wait_s, 1, "x")), lambda: cancel(store, run_id)]
    if stop_first:
        calls.reverse()
    outcomes = in_this_order(store, postgres_url, run_held(run_id), calls)
    assert outcomes[0 if stop_first else 1] is (RunStatus.ACTIVE if stop_first else RunStatus.CANCELLED)
    assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
    assert step_row(store, run_id, 1)["status"] == "CANCELLED"


@pytest.mark.parametrize("lapse_first", [True, False])
def test_of_a_lapse_and_a_late_finish_the_first_one_wins(store: Store, postgres_url: str, lapse_first: bool) -> None:
    run_id, claim = started_tool(store)
    let_lapse(store, run_id, 2)
    lapsed = Lapsed(run_id, 2, claim.lease.owner)
    calls = [lambda: store.lapse_step(lapsed), lambda: store.finish_tool_step(claim.lease, returned())]
    if not lapse_first:
        calls.reverse()
    first, second = in_this_order(store, postgres_url, run_held(run_id), calls)
    assert len(first) == 1
    if lapse_first:
        assert isinstance(second, LeaseLost)
        assert claimed(store, run_id, 2).lease.attempt == 2
    else:
        assert second is None
        assert step_row(store, run_id, 2)["status"] == "DONE"


@pytest.mark.parametrize("stop_first", [True, False])
@pytest.mark.parametrize("verdict", ["run", "reject", "fail"])
def test_a_verdict_and_a_stop_leave_one_outcome_per_order(
    store: Store, postgres_url: str, verdict: str, stop_first: bool
) -> None:
    run_id = opened_turn(store, "wipe")
    calls = [lambda: store.decide(run_id, 2, verdict=verdict, by="ann"), lambda: cancel(store, run_id)]
    if stop_first:
        calls.reverse()
    first, second = in_this_order(store, postgres_url, run_held(run_id), calls)
    view = store.get_run("default", run_id)
    if stop_first:
        assert first is RunStatus.CANCELLED
        assert isinstance(second, AlreadyDecided)
    else:
        assert len(first) == (0 if verdict == "fail" else 1)
        assert second is (RunStatus.FAILED if verdict == "fail" else RunStatus.CANCELLED)
    failed = verdict == "fail" and not stop_first
    assert view.status is (ShownStatus.FAILED if failed else ShownStatus.CANCELLED)


def test_of_many_verdicts_at_once_the_first_one_stands(store: Store) -> None:
    run_id = opened_turn(store, "wipe")
    outcomes = at_once([lambda: store.decide(run_id, 2, verdict="reject", by="ann")] * 10)
    assert sum(isinstance(outcome, AlreadyDecided) for outcome in outcomes) == 9


def test_two_sweeps_at_once_ring_each_step_once(store: Store) -> None:
    runs = [store.create_run(new_run())[0] for _ in range(40)]
    for run_id in runs:
        set_step(store, run_id, 1, due_at=after(-1.0))
    rung = at_once([lambda: store.ring_due(30)] * 4)
    ids = [dispatch.run_id for dispatches in rung for dispatch in dispatches]
    ids += [dispatch.run_id for dispatch in store.ring_due(100)]
    assert sorted(ids) == sorted(runs)
    assert {step_row(store, run_id, 1)["dispatches"] for run_id in runs} == {2}


def test_a_sweep_passes_over_a_step_that_is_being_claimed_and_does_not_wait(store: Store, postgres_url: str) -> None:
    busy, free = (store.create_run(new_run())[0] for _ in range(2))
    for run_id in (busy, free):
        set_step(store, run_id, 1, due_at=after(-1.0))
    with rows_held(postgres_url, step_held(busy, 1)):
        assert [dispatch.run_id for dispatch in Contender(lambda: store.ring_due(10)).join()] == [free]


def test_two_sweeps_take_a_lapsed_step_back_once(store: Store) -> None:
    run_id, claim = started_tool(store, "pay")
    let_lapse(store, run_id, 2)
    outcomes = at_once([lambda: store.lapse_step(Lapsed(run_id, 2, claim.lease.owner))] * 8)
    assert (outcomes.count([]), outcomes.count(None)) == (1, 7)
    assert step_row(store, run_id, 2)["crashes"] == 1
    assert len(approval_rows(store, run_id)) == 1


def test_a_turn_opens_whole_or_not_at_all_against_a_stop(store: Store, postgres_url: str) -> None:
    for stop_first in (True, False):
        run_id, claim = started_model(store)
        calls = [
            lambda: store.finish_model_step(claim.lease, calls_answer("look", "put", "wipe"), AGENT),  # noqa: B023
            lambda: cancel(store, run_id),  # noqa: B023
        ]
        if stop_first:
            calls.reverse()
        in_this_order(store, postgres_url, run_held(run_id), calls)
        assert store.get_run("default", run_id).status is ShownStatus.CANCELLED
        assert len(store.timeline(run_id)) == (1 if stop_first else 4)


def test_everything_at_once_on_one_run_never_deadlocks(store: Store) -> None:
    for _ in range(5):
        run_id = opened_turn(store, *["look"] * 4, *["wipe"] * 2)
        leases = [claimed(store, run_id, seq).lease for seq in (2, 3)]
        outcomes = at_once(
            [
                lambda: store.finish_tool_step(leases[0], returned()),  # noqa: B023
                lambda: store.suspend_step(leases[1], Suspended("approval", "?", 60.0)),  # noqa: B023
                lambda: store.claim_step(run_id, 4, fresh_owner()),  # noqa: B023
                lambda: store.decide(run_id, 6, verdict="reject", by="ann"),  # noqa: B023
                lambda: store.renew_leases(leases, leases),  # noqa: B023
                lambda: store.ring_due(50),
                lambda: cancel(store, run_id),  # noqa: B023
                lambda: store.decide(run_id, 7, verdict="run", by="ann"),  # noqa: B023
            ]
        )
        unexpected = [
            o for o in outcomes if isinstance(o, Exception) and not isinstance(o, (AlreadyDecided, LeaseLost))
        ]
        assert unexpected == []
        check_invariants(store.engine)
