"""Only the holder of the current lease can write to a started step, whichever verb it tries (invariant I2)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.domain.errors import LeaseLost
from app.domain.lease import Lease
from app.domain.outcome import Cut, Postponed, Refused, Suspended
from app.domain.status import StepStatus, StopCode
from app.domain.usage import Usage
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    approval_rows,
    calls_answer,
    claimed,
    let_lapse,
    returned,
    run_row,
    set_run,
    set_step,
    started_model,
    started_tool,
    step_row,
    text_answer,
)

WASTE: dict[str, Any] = {"waste": Usage(7, 7), "waste_cost_nano": 7}
VERBS: dict[str, Callable[[Store, Lease], object]] = {
    "finish_model_step": lambda store, lease: store.finish_model_step(lease, calls_answer("look", **WASTE), AGENT),
    "finish_model_step final": lambda store, lease: store.finish_model_step(lease, text_answer(**WASTE), AGENT),
    "refuse_model_step": lambda store, lease: store.refuse_model_step(lease, Refused("x", "x", 1, 1, **WASTE)),
    "cut_step": lambda store, lease: store.cut_step(lease, Cut(1, 1, **WASTE)),
    "finish_tool_step": lambda store, lease: store.finish_tool_step(lease, returned("stale")),
    "postpone_step": lambda store, lease: store.postpone_step(lease, Postponed(5.0, 1, "x", **WASTE)),
    "postpone_step past the deadline": lambda store, lease: store.postpone_step(lease, Postponed(1e6, 1, "x", **WASTE)),
    "hand back": lambda store, lease: store.postpone_step(lease, Postponed(0.0, 1, "drain")),
    "suspend_step": lambda store, lease: store.suspend_step(lease, Suspended("approval", "x", 60.0)),
}


def _lapsed(store: Store, lease: Lease) -> Lease:
    let_lapse(store, lease.run_id, lease.seq)
    assert store.lapse_step(Lapsed(lease.run_id, lease.seq, lease.owner)) is not None
    return lease


def _lapsed_and_claimed_again(store: Store, lease: Lease) -> Lease:
    _lapsed(store, lease)
    claimed(store, lease.run_id, lease.seq)
    return lease


def _finished_by_another(store: Store, lease: Lease) -> Lease:
    _lapsed(store, lease)
    other = claimed(store, lease.run_id, lease.seq).lease
    if step_row(store, lease.run_id, lease.seq)["kind"] == "MODEL":
        store.finish_model_step(other, text_answer("by another"), AGENT)
    else:
        store.finish_tool_step(other, returned("by another"))
    return lease


def _fenced_off_in_a_stop(store: Store, lease: Lease) -> Lease:
    store.stop_run(lease.run_id, StopCode.CANCELLED)
    return _lapsed(store, lease)


def _ended_as_timed_out(store: Store, lease: Lease) -> Lease:
    outlived = Lapsed(lease.run_id, lease.seq, lease.owner, when_due=False, outlived=True)
    assert store.lapse_step(outlived) is not None
    return lease


def _ended_as_crash_loop(store: Store, lease: Lease) -> Lease:
    set_step(store, lease.run_id, lease.seq, crashes=store.max_crashes - 1)
    return _lapsed(store, lease)


LOSSES: dict[str, Callable[[Store, Lease], Lease]] = {
    "lapsed": _lapsed,
    "lapsed and claimed again": _lapsed_and_claimed_again,
    "finished by another": _finished_by_another,
    "fenced off in a stop": _fenced_off_in_a_stop,
    "ended as timed out": _ended_as_timed_out,
    "ended as crash loop": _ended_as_crash_loop,
    "never held: another owner": lambda store, lease: replace(lease, owner=lease.owner[:-1] + "z"),
    "never held: an earlier attempt": lambda store, lease: replace(lease, attempt=lease.attempt - 1),
    "never held: a later attempt": lambda store, lease: replace(lease, attempt=lease.attempt + 1),
    "never held: another step": lambda store, lease: replace(lease, seq=lease.seq + 1),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("start", [started_model, started_tool], ids=["model", "tool"])
def test_no_verb_writes_anything_without_the_current_lease(
    store: Store, start: Callable[[Store], tuple[str, object]], verb: str, loss: str
) -> None:
    run_id, claim = start(store)
    lease = LOSSES[loss](store, claim.lease)  # type: ignore[attr-defined]
    before = (store.timeline(run_id), run_row(store, run_id), approval_rows(store, run_id))
    with pytest.raises(LeaseLost):
        VERBS[verb](store, lease)
    assert (store.timeline(run_id), run_row(store, run_id), approval_rows(store, run_id)) == before


def test_a_lease_that_ran_out_but_was_not_taken_still_holds(store: Store) -> None:
    run_id, claim = started_tool(store)
    let_lapse(store, run_id, 2)
    assert len(store.finish_tool_step(claim.lease, returned())) == 1
    assert store.timeline(run_id)[1].status is StepStatus.DONE


@pytest.mark.every_database
def test_a_checkpoint_repeated_after_its_answer_was_lost_is_recognised_and_counted_once(store: Store) -> None:
    model_run, model = started_model(store)
    said = calls_answer("look", **WASTE)
    assert len(store.finish_model_step(model.lease, said, AGENT)) == 1
    before = run_row(store, model_run)
    assert store.finish_model_step(model.lease, said, AGENT) == []
    assert run_row(store, model_run) == before
    tool_run, tool = started_tool(store)
    store.finish_tool_step(tool.lease, returned())
    before = run_row(store, tool_run)
    assert store.finish_tool_step(tool.lease, returned()) == []
    assert run_row(store, tool_run) == before


@pytest.mark.parametrize("verb", ["refuse_model_step", "cut_step", "postpone_step past the deadline"])
def test_a_repeated_end_of_a_step_is_recognised(store: Store, verb: str) -> None:
    run_id, claim = started_model(store)
    VERBS[verb](store, claim.lease)
    before = run_row(store, run_id)
    assert VERBS[verb](store, claim.lease) == []
    assert run_row(store, run_id) == before


@pytest.mark.parametrize("verb", ["postpone_step", "hand back", "suspend_step", "cut_step"])
def test_a_release_after_our_own_checkpoint_went_through_changes_nothing(store: Store, verb: str) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, calls_answer("look"), AGENT)
    before = (store.timeline(run_id), run_row(store, run_id))
    assert VERBS[verb](store, claim.lease) == []
    assert (store.timeline(run_id), run_row(store, run_id)) == before


def test_the_deadline_is_no_part_of_the_fence(store: Store) -> None:
    run_id, claim = started_model(store)
    set_run(store, run_id, token_budget=1)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    assert store.timeline(run_id)[0].status is StepStatus.DONE
