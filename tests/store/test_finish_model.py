"""An answer is recorded, counted, and opens what comes next, in one transaction."""

import json

import pytest

from app.domain.outcome import Cut, Refused
from app.domain.status import ShownStatus, StepKind, StepStatus
from app.domain.usage import Usage
from app.store.store import Store
from tests.support.builders import (
    AGENT,
    answer,
    approval_rows,
    calls_answer,
    claimed,
    let_deadline_pass,
    new_run,
    run_row,
    started_model,
    step_row,
    text_answer,
)


@pytest.mark.every_database
def test_an_end_turn_ends_the_run_with_the_text_as_output(store: Store) -> None:
    run_id, claim = started_model(store)
    assert store.finish_model_step(claim.lease, text_answer("Two are overdue."), AGENT) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.output, view.error_code) == (ShownStatus.SUCCEEDED, "Two are overdue.", None)
    assert view.finished_at is not None
    assert (view.tokens_used, view.cost_nano, view.open_steps, view.steps) == (100, 1000, 0, 1)
    [step] = store.timeline(run_id)
    assert (step.status, step.stop_reason, step.latency_ms, step.request_id) == (
        StepStatus.DONE,
        "end_turn",
        12,
        "req_1",
    )
    assert (step.usage, step.cost_nano, step.owner) == (Usage(60, 20, 15, 5), 1000, claim.lease.owner)


def test_every_call_of_a_turn_becomes_one_tool_step_in_order(store: Store) -> None:
    run_id, claim = started_model(store)
    said = calls_answer("pay", "look", "put")
    dispatches = store.finish_model_step(claim.lease, said, AGENT)
    assert [(d.seq, d.kind, d.queue, d.tool_name) for d in dispatches] == [
        (2, StepKind.TOOL, "tool", "pay"),
        (3, StepKind.TOOL, "tool", "look"),
        (4, StepKind.TOOL, "tool", "put"),
    ]
    steps = store.timeline(run_id)[1:]
    assert [s.effect for s in steps] == ["UNSAFE", "READ", "KEYED"]
    assert [s.tool_use_id for s in steps] == [block["id"] for block in json.loads(said.response)]
    assert {(s.status, s.turn, s.tool_input) for s in steps} == {(StepStatus.READY, 1, '{"day":"now"}')}
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING


def test_the_response_is_kept_byte_for_byte(store: Store) -> None:
    _, claim = started_model(store)
    text = '[{"type":"text","text":"é 😀 \\u0000 \\ud800","z":1,"a":1.50},{"b":2,"type":"thinking","signature":"x=="}]'
    store.finish_model_step(claim.lease, answer([], stop_reason="pause_turn", response=text), AGENT)
    assert store.read_history(claim.lease.run_id, 2).steps[0].response == text


def test_a_tool_that_asks_for_approval_opens_waiting_with_its_question(store: Store) -> None:
    run_id, claim = started_model(store)
    dispatches = store.finish_model_step(claim.lease, calls_answer("wipe", "look"), AGENT)
    assert [d.seq for d in dispatches] == [3]
    assert [s.status for s in store.timeline(run_id)[1:]] == [StepStatus.WAITING, StepStatus.READY]
    [question] = approval_rows(store, run_id)
    assert (question["seq"], question["kind"], question["status"]) == (2, "approval", "PENDING")
    assert "wipe" in question["reason"]


def test_a_call_of_a_tool_that_the_run_does_not_have_opens_a_step_too(store: Store) -> None:
    run_id, claim = started_model(store)
    [dispatch] = store.finish_model_step(claim.lease, calls_answer("fly"), AGENT)
    assert (dispatch.seq, dispatch.queue, dispatch.tool_name) == (2, "tool", "fly")
    assert claimed(store, run_id, 2).tool_name == "fly"


def test_odd_names_and_arguments_are_stored_as_valid_text(store: Store) -> None:
    run_id, claim = started_model(store)
    blocks = [{"type": "tool_use", "id": "a\x00b", "name": "x\ud800", "input": {"k": "\x00\ud800"}}]
    store.finish_model_step(claim.lease, answer(blocks, stop_reason="tool_use"), AGENT)
    step = store.timeline(run_id)[1]
    assert (step.tool_use_id, step.tool_name) == ("a\ufffdb", "x\ufffd")
    assert json.loads(step.tool_input or "") == {"k": "\x00\ud800"}


@pytest.mark.parametrize("text", ["NUL \x00 inside", "lone \udc80 inside"])
def test_a_final_answer_that_no_database_could_store_still_ends_the_run(store: Store, text: str) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(text), AGENT)
    view = store.get_run("default", run_id)
    assert (view.status, view.output) == (ShownStatus.SUCCEEDED, text.split()[0] + " \ufffd inside")


def test_a_turn_over_the_step_cap_opens_none_of_its_tools(store: Store) -> None:
    run_id, claim = started_model(store, step_cap=3)
    assert store.finish_model_step(claim.lease, calls_answer("look", "look", "look"), AGENT) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.steps, view.tokens_used) == (ShownStatus.FAILED, "step_cap", 1, 100)
    assert (view.stop_code, view.error_message) == ("step_cap", "the step cap is reached")


def test_a_turn_that_just_fits_the_step_cap_opens_all_of_its_tools(store: Store) -> None:
    _, claim = started_model(store, step_cap=4)
    assert len(store.finish_model_step(claim.lease, calls_answer("look", "look", "look"), AGENT)) == 3


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"token_budget": 100}, "token_budget"), ({"cost_budget_nano": 1000}, "cost_budget")],
)
def test_a_spent_budget_ends_the_run_before_its_tools_open(store: Store, limits: dict[str, int], code: str) -> None:
    run_id, claim = started_model(store, **limits)
    assert store.finish_model_step(claim.lease, calls_answer("look"), AGENT) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.steps) == (ShownStatus.FAILED, code, 1)


def test_waste_counts_within_the_token_budget(store: Store) -> None:
    run_id, claim = started_model(store, token_budget=150)
    store.finish_model_step(claim.lease, calls_answer("look", waste=Usage(40, 10), waste_cost_nano=7), AGENT)
    view = store.get_run("default", run_id)
    assert (view.error_code, view.tokens_used, view.wasted_tokens, view.wasted_cost_nano) == (
        "token_budget",
        100,
        50,
        7,
    )


def test_an_answer_that_comes_after_the_deadline_opens_nothing_but_a_final_one_counts(store: Store) -> None:
    late, claim = started_model(store)
    let_deadline_pass(store, late)
    store.finish_model_step(claim.lease, calls_answer("look"), AGENT)
    assert store.get_run("default", late).status is ShownStatus.TIMED_OUT
    final, claim = started_model(store)
    let_deadline_pass(store, final)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    assert store.get_run("default", final).status is ShownStatus.SUCCEEDED


def test_a_call_without_a_price_is_counted_and_costs_nothing(store: Store) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(cost_nano=None, price_version=None), AGENT)
    view = store.get_run("default", run_id)
    assert (view.status, view.cost_nano, view.unpriced_calls) == (ShownStatus.SUCCEEDED, 0, 1)
    assert store.timeline(run_id)[0].cost_nano is None


def test_a_paused_answer_opens_the_next_model_step_until_it_pauses_too_often(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    for seq in range(1, 11):
        claim = claimed(store, run_id, seq)
        [dispatch] = store.finish_model_step(claim.lease, text_answer("…", stop_reason="pause_turn"), AGENT)
        assert (dispatch.seq, dispatch.kind) == (seq + 1, StepKind.MODEL)
    store.finish_model_step(claimed(store, run_id, 11).lease, text_answer(stop_reason="pause_turn"), AGENT)
    assert store.get_run("default", run_id).error_code == "too_many_continuations"


def test_other_answers_between_reset_the_count_of_pauses(store: Store) -> None:
    run_id, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(stop_reason="pause_turn"), AGENT)
    assert run_row(store, run_id)["continuations"] == 1
    store.finish_model_step(claimed(store, run_id, 2).lease, calls_answer("look"), AGENT)
    assert run_row(store, run_id)["continuations"] == 0


def test_a_refused_call_is_an_error_step_and_fails_the_run_with_its_code(store: Store) -> None:
    run_id, claim = started_model(store)
    refused = Refused("invalid_request_error", "bad \x00 request", 3, 9, "req_9", Usage(5, 1), 11)
    assert store.refuse_model_step(claim.lease, refused) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.error_code, view.error_message) == (
        ShownStatus.FAILED,
        "invalid_request_error",
        "bad \ufffd request",
    )
    [step] = store.timeline(run_id)
    assert (step.status, step.tries, step.wasted_tokens, step.request_id) == (StepStatus.ERROR, 3, 6, "req_9")
    assert (view.tokens_used, view.wasted_tokens, view.wasted_cost_nano) == (0, 6, 11)


def test_a_call_cut_at_the_deadline_is_cancelled_with_its_usage_and_times_the_run_out(store: Store) -> None:
    run_id, claim = started_model(store)
    assert store.cut_step(claim.lease, Cut(2, 50, Usage(30, 4), 21)) == []
    view = store.get_run("default", run_id)
    assert (view.status, view.stop_code, view.wasted_tokens) == (ShownStatus.TIMED_OUT, "deadline", 34)
    assert step_row(store, run_id, 1)["status"] == "CANCELLED"


def test_money_and_tokens_add_up_over_many_steps(store: Store) -> None:
    run_id, _ = store.create_run(new_run())
    for turn in range(3):
        claim = claimed(store, run_id, turn + 1)
        store.finish_model_step(
            claim.lease, text_answer(stop_reason="pause_turn", waste=Usage(1, turn), waste_cost_nano=turn), AGENT
        )
    view = store.get_run("default", run_id)
    assert (view.tokens_used, view.cost_nano, view.wasted_tokens, view.wasted_cost_nano) == (300, 3000, 6, 3)
