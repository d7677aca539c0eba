"""The keeper's one statement: renew, and learn what is lost or being stopped."""

from dataclasses import replace

import pytest

from app.domain.status import StopCode
from app.store.dialect import after
from app.store.store import Store
from tests.support.builders import (
    claimed,
    let_lapse,
    opened_turn,
    returned,
    set_step,
    started_model,
    started_tool,
    step_row,
)


@pytest.mark.every_database
def test_a_renewal_gives_the_full_lease_again_and_clears_a_suspicion(store: Store) -> None:
    run_id, claim = started_tool(store)
    set_step(store, run_id, 2, due_at=after(1.0), suspect_at=after(0.0))
    [report] = store.renew_leases([claim.lease], [claim.lease])
    assert (report.lease, report.held, report.stop_code) == (claim.lease, True, None)
    assert report.lease_left_s == pytest.approx(30, abs=1)
    assert step_row(store, run_id, 2)["suspect_at"] is None


def test_a_lease_that_is_not_yet_due_is_only_looked_at(store: Store) -> None:
    run_id, claim = started_tool(store)
    set_step(store, run_id, 2, due_at=after(12.0))
    [report] = store.renew_leases([claim.lease], [])
    assert report.held
    assert report.lease_left_s == pytest.approx(12, abs=1)


def test_a_lease_that_ran_out_but_was_not_taken_can_be_renewed(store: Store) -> None:
    run_id, claim = started_tool(store)
    let_lapse(store, run_id, 2)
    assert store.renew_leases([claim.lease], [claim.lease])[0].lease_left_s > 20
    assert store.lapsed_claims(10) == []


def test_lost_finished_and_foreign_leases_are_reported_as_not_held_and_not_renewed(store: Store) -> None:
    run_id = opened_turn(store, "look", "look", "look")
    lost, done, stale = (claimed(store, run_id, seq).lease for seq in (2, 3, 4))
    let_lapse(store, run_id, 2)
    store.lapse_step(store.lapsed_claims(1)[0])
    claimed(store, run_id, 2)
    store.finish_tool_step(done, returned())
    foreign = [replace(stale, owner="other/1/x/y"), replace(stale, attempt=2), replace(stale, seq=99)]
    leases = [lost, done, *foreign]
    set_step(store, run_id, 4, due_at=after(5.0))
    reports = store.renew_leases(leases, leases)
    assert [report.lease for report in reports] == leases
    assert [(report.held, report.lease_left_s) for report in reports] == [(False, 0.0)] * 5
    assert store.renew_leases([stale], [])[0].lease_left_s < 6


def test_a_run_that_is_being_stopped_is_reported_and_its_lease_is_not_renewed(store: Store) -> None:
    run_id, claim = started_model(store)
    set_step(store, run_id, 1, due_at=after(5.0))
    store.stop_run(run_id, StopCode.CANCELLED)
    [report] = store.renew_leases([claim.lease], [claim.lease])
    assert (report.held, report.stop_code) == (True, "cancelled")
    assert report.lease_left_s < 6


def test_many_leases_of_many_runs_are_renewed_at_once(store: Store) -> None:
    leases = [started_tool(store)[1].lease for _ in range(5)]
    for lease in leases:
        set_step(store, lease.run_id, lease.seq, due_at=after(1.0))
    reports = store.renew_leases(leases, leases[:3])
    assert [report.lease_left_s > 20 for report in reports] == [True, True, True, False, False]


def test_nothing_to_renew_is_no_error(store: Store) -> None:
    assert store.renew_leases([], []) == []
