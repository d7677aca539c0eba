"""The keeper, with its looks made by hand and a clock that only the test moves.

Ticks are 1000 s apart, so that its threads never look by themselves; where threads are the matter, they tick fast.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.domain.lease import Lease
from app.domain.run import RenewedLease
from app.domain.status import StopCode
from app.engine.keeper import Held, Keeper
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.builders import started_model, started_tool, step_row

LEASE_S = 30_000.0
FOREVER_S = 1e9


class _Recorded(Store):
    """A store that notes what the keeper asks of it."""

    def __init__(self, store: Store, silent_for: int = 0) -> None:
        super().__init__(store.engine, lease_s=LEASE_S)
        self.asked: list[tuple[list[Lease], list[Lease]]] = []
        self.answered = threading.Event()
        self._silent_for = silent_for

    def renew_leases(self, leases: Sequence[Lease], due_leases: Sequence[Lease]) -> list[RenewedLease]:
        self.asked.append((list(leases), list(due_leases)))
        if len(self.asked) <= self._silent_for:
            raise ConnectionError("the database does not answer")
        try:
            return super().renew_leases(leases, due_leases)
        finally:
            self.answered.set()

    @property
    def renewed(self) -> list[Lease]:
        return [lease for _, due in self.asked for lease in due]


class _Clock:
    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def _kept(store: Store) -> tuple[_Recorded, Keeper, _Clock]:
    recorded, clock = _Recorded(store), _Clock()
    return recorded, Keeper(recorded, tick_s=1000.0, clock=clock), clock


@pytest.mark.parametrize(("used_s", "renewed"), [(9_990.0, False), (10_010.0, True)])
def test_a_lease_is_renewed_once_a_third_of_it_is_used(store: Store, used_s: float, renewed: bool) -> None:
    recorded, keeper, clock = _kept(store)
    run_id, claim = started_model(recorded)
    before = step_row(store, run_id, 1)["due_at"]
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=FOREVER_S):
        clock.now += used_s
        keeper.renew()
    assert recorded.renewed == ([claim.lease] if renewed else [])
    assert (step_row(store, run_id, 1)["due_at"] > before) is renewed


def test_a_renewed_lease_outlives_its_first_end(sqlite_store: Store) -> None:
    recorded, keeper, clock = _kept(sqlite_store)
    _, claim = started_model(recorded)
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=FOREVER_S) as held:
        for _ in range(10):
            clock.now += 15_000.0
            keeper.renew()
            keeper.watch()
        assert held.cutoff.reason is None
    assert len(recorded.renewed) == 10


def test_a_lease_that_cannot_be_renewed_is_cut_before_its_end(sqlite_store: Store) -> None:
    recorded, keeper, clock = _kept(sqlite_store)
    _, claim = started_model(recorded)
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=FOREVER_S) as held:
        clock.now += LEASE_S - 2_001.0
        keeper.watch()
        assert held.cutoff.reason is None
        clock.now += 2.0
        keeper.watch()
        assert held.cutoff.reason == "lease_lost"
        keeper.renew()
    assert recorded.asked == []  # what was given up is not taken back


def test_the_lease_counts_from_before_the_claim_was_sent(sqlite_store: Store) -> None:
    recorded, keeper, clock = _kept(sqlite_store)
    _, claim = started_model(recorded)
    sent_at = clock.now
    clock.now += LEASE_S - 1_000.0  # the claim's answer took that long
    with keeper.hold(claim.lease, claimed_at=sent_at, limit_s=FOREVER_S) as held:
        keeper.watch()
        assert held.cutoff.reason == "lease_lost"


def test_the_call_ends_when_another_claim_has_the_step(store: Store) -> None:
    recorded, keeper, clock = _kept(store)
    run_id, claim = started_model(recorded)
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=FOREVER_S) as held:
        store.lapse_step(Lapsed(run_id, 1, claim.lease.owner, when_due=False))
        assert store.claim_step(run_id, 1, "another/1/-/00") is not None
        keeper.renew()
        assert held.cutoff.reason == "lease_lost"
        assert held.stopped()


def test_the_call_ends_when_its_run_is_being_stopped_and_its_lease_is_left_to_lapse(store: Store) -> None:
    recorded, keeper, clock = _kept(store)
    run_id, claim = started_model(recorded)
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=FOREVER_S) as held:
        store.stop_run(run_id, StopCode.CANCELLED)
        due_at = step_row(store, run_id, 1)["due_at"]
        clock.now += 20_000.0
        keeper.renew()
        assert held.cutoff.reason == "stopped"
        assert step_row(store, run_id, 1)["due_at"] == due_at


def test_a_call_past_its_own_limit_is_ended_and_its_lease_not_renewed(store: Store) -> None:
    recorded, keeper, clock = _kept(store)
    _, claim = started_tool(recorded)
    with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=12_000.0) as held:
        clock.now += 11_999.0
        keeper.watch()
        keeper.renew()
        assert held.cutoff.reason is None
        assert recorded.renewed == [claim.lease]
        clock.now += 20_000.0
        keeper.watch()
        keeper.renew()
        assert held.cutoff.reason == "deadline"
    assert len(recorded.asked) == 1


def test_what_is_no_longer_held_is_forgotten(sqlite_store: Store) -> None:
    recorded, keeper, clock = _kept(sqlite_store)
    _, claim = started_model(recorded)
    with pytest.raises(ZeroDivisionError), keeper.hold(claim.lease, claimed_at=clock.now, limit_s=1.0):
        raise ZeroDivisionError
    keeper.renew()
    assert recorded.asked == []


def test_several_leases_are_kept_with_one_question(store: Store) -> None:
    recorded, keeper, clock = _kept(store)
    (_, first), (lost_id, second) = started_model(recorded), started_model(recorded)
    with (
        keeper.hold(first.lease, claimed_at=clock.now, limit_s=FOREVER_S) as kept,
        keeper.hold(second.lease, claimed_at=clock.now, limit_s=FOREVER_S) as lost,
    ):
        store.lapse_step(Lapsed(lost_id, 1, second.lease.owner, when_due=False))
        clock.now += 15_000.0
        keeper.renew()
        assert (kept.cutoff.reason, lost.cutoff.reason) == (None, "lease_lost")
    assert recorded.asked == [([first.lease, second.lease], [first.lease, second.lease])]


def test_a_database_that_is_silent_for_a_moment_aborts_nothing(
    sqlite_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    recorded = _Recorded(sqlite_store, silent_for=3)
    _, claim = started_model(recorded)
    keeper = Keeper(recorded, tick_s=0.01)
    with keeper.hold(claim.lease, claimed_at=keeper.clock(), limit_s=FOREVER_S) as held:
        assert recorded.answered.wait(10)
        assert held.cutoff.reason is None
    assert caplog.text.count("the database does not answer") == 3


def _keeper_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("keeper-")}


def test_two_threads_start_with_the_first_lease_and_no_more_ever(sqlite_store: Store) -> None:
    before = _keeper_threads()
    recorded, keeper, clock = _kept(sqlite_store)
    assert _keeper_threads() == before
    for _ in range(3):
        _, claim = started_model(recorded)
        with keeper.hold(claim.lease, claimed_at=clock.now, limit_s=1.0):
            started = _keeper_threads() - before
            assert {thread.name for thread in started} == {"keeper-watch", "keeper-renew"}
            assert len(started) == 2
            assert all(thread.daemon for thread in started)


_FORKING = """
import os, sys, threading, warnings
from app.domain.lease import Lease
from app.domain.run import RenewedLease
from app.engine.keeper import Keeper

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads

class Asked:
    lease_s = 30.0
    def __init__(self):
        self.owners, self.once = set(), threading.Event()
    def renew_leases(self, leases, due):
        self.owners |= {lease.owner for lease in leases}
        self.once.set()
        return [RenewedLease(lease, held=True, stop_code=None, lease_left_s=30.0) for lease in leases]

def keepers():
    return sum(thread.name.startswith("keeper-") for thread in threading.enumerate())

asked = Asked()
keeper = Keeper(asked, tick_s=0.01)
with keeper.hold(Lease("run", 1, 1, "parent"), claimed_at=keeper.clock(), limit_s=100.0):
    assert asked.once.wait(10)
    child = os.fork()
    if child == 0:
        asked.owners, asked.once = set(), threading.Event()
        alone = keepers()
        with keeper.hold(Lease("run", 2, 1, "child"), claimed_at=keeper.clock(), limit_s=100.0):
            assert asked.once.wait(10)
            print(alone, keepers(), sorted(asked.owners), flush=True)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_gets_threads_of_its_own_and_leaves_its_parents_leases_alone() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", _FORKING], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("0 2 ['child']\n", "", 0)


def test_short_leases_are_looked_at_more_often(postgres_store: Store) -> None:
    """A tick of a second would find a lease of a second already over."""
    short = Store(postgres_store.engine, lease_s=0.5)
    _, claim = started_model(short)
    keeper = Keeper(short)
    with keeper.hold(claim.lease, claimed_at=keeper.clock(), limit_s=100.0) as held:
        assert not _cut_within(held, 1.5)
    assert short.lapsed_claims(10) == []


def _cut_within(held: Held, seconds: float) -> bool:
    cut = threading.Event()
    held.cutoff.on_cut(cut.set)
    return cut.wait(seconds)
