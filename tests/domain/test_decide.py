"""What comes next, for every stop reason there is and every one there may come to be."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.decide import (
    MAX_CONTINUATIONS,
    End,
    OpenModel,
    OpenTools,
    Wait,
    after_cancel,
    after_failure,
    after_model,
    after_tool,
)
from app.domain.guard import Standing
from app.domain.status import RunStatus, StopCode, terminal_status
from tests.support.builders import answer, calls_answer, text_answer

FREE = Standing(
    stop_code=None,
    seconds_left=60.0,
    tokens_used=0,
    token_budget=100,
    cost_nano=0,
    cost_budget_nano=None,
    next_seq=2,
    step_cap=10,
    open_steps=0,
)
KNOWN = [
    "tool_use",
    "end_turn",
    "stop_sequence",
    "pause_turn",
    "compaction",
    "max_tokens",
    "refusal",
    "model_context_window_exceeded",
    None,
    "something_new",
]
standings = st.builds(
    Standing,
    stop_code=st.none() | st.sampled_from(StopCode),
    seconds_left=st.floats(-10, 100),
    tokens_used=st.integers(0, 200),
    token_budget=st.integers(1, 200),
    cost_nano=st.integers(0, 200),
    cost_budget_nano=st.none() | st.integers(1, 200),
    next_seq=st.integers(2, 30),
    step_cap=st.integers(1, 30),
    open_steps=st.just(0),
    continuations=st.integers(0, 12),
)
blocks = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "x"},
            {"type": "text"},
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "tool_use", "id": "a", "name": "look", "input": {}},
            {"type": "tool_use"},
            {"type": "server_tool_use", "id": "b"},
            {},
        ]
    ),
    max_size=4,
)


@given(st.sampled_from(KNOWN) | st.text(), blocks, standings)
def test_every_answer_has_a_next_and_only_a_good_one_goes_on(
    reason: str | None, said: list[dict[str, str]], standing: Standing
) -> None:
    following = after_model(answer(said, stop_reason=reason), standing)
    assert isinstance(following, End | OpenModel | OpenTools)
    if isinstance(following, OpenTools):
        assert reason == "tool_use"
        assert len(following.calls) == sum(block.get("type") == "tool_use" for block in said) > 0
        assert standing.next_seq - 1 + len(following.calls) <= standing.step_cap
    elif isinstance(following, OpenModel):
        assert reason in ("pause_turn", "compaction")
    else:
        assert following.status is not RunStatus.ACTIVE
        assert (following.error_code is None) == (following.status is RunStatus.SUCCEEDED)
    if standing.stop_code is not None:
        assert isinstance(following, End)
        assert following.status is terminal_status(standing.stop_code)


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence"])
def test_a_finished_answer_succeeds_with_all_its_text(reason: str) -> None:
    said = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "t"}, {"type": "text", "text": "b"}]
    assert after_model(answer(said, stop_reason=reason), FREE) == End(RunStatus.SUCCEEDED, output="ab")


def test_an_empty_final_answer_succeeds_with_an_empty_output() -> None:
    assert after_model(answer([], stop_reason="end_turn"), FREE) == End(RunStatus.SUCCEEDED, output="")


def test_the_calls_come_in_the_order_in_which_the_model_asked() -> None:
    said = calls_answer("b", "a", "c")
    following = after_model(said, FREE)
    assert isinstance(following, OpenTools)
    assert [call.name for call in following.calls] == ["b", "a", "c"]
    assert [call.id for call in following.calls] == [block["id"] for block in json.loads(said.response)]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("max_tokens", "output_truncated"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "model_context_window_exceeded"),
        (None, "unknown_stop_reason"),
        ("something_new", "unknown_stop_reason"),
    ],
)
def test_a_cut_or_refused_answer_never_runs_the_tools_in_it(reason: str | None, code: str) -> None:
    following = after_model(replace(calls_answer("pay"), stop_reason=reason), FREE)
    assert isinstance(following, End)
    assert (following.status, following.error_code) == (RunStatus.FAILED, code)


def test_stopping_for_tools_without_asking_for_one_fails_the_run() -> None:
    following = after_model(text_answer(stop_reason="tool_use"), FREE)
    assert isinstance(following, End)
    assert following.error_code == "empty_tool_use"


def test_pauses_in_a_row_are_capped() -> None:
    paused = text_answer(stop_reason="pause_turn")
    assert after_model(paused, replace(FREE, continuations=MAX_CONTINUATIONS - 1)) == OpenModel()
    following = after_model(paused, replace(FREE, continuations=MAX_CONTINUATIONS))
    assert isinstance(following, End)
    assert following.error_code == "too_many_continuations"


def test_a_budget_that_is_spent_does_not_take_a_finished_answer_away() -> None:
    spent = replace(FREE, tokens_used=100, seconds_left=-1.0)
    assert after_model(text_answer("done"), spent) == End(RunStatus.SUCCEEDED, output="done")


def test_a_closed_tool_step_waits_for_its_siblings_and_the_last_one_asks_the_model() -> None:
    assert after_tool(replace(FREE, open_steps=1)) == Wait()
    assert after_tool(FREE) == OpenModel()
    assert after_tool(replace(FREE, seconds_left=-1.0)) == End(
        RunStatus.TIMED_OUT, "deadline", "the deadline passed", stop=StopCode.DEADLINE
    )


def test_a_stopping_run_ends_with_its_last_open_step_and_not_before() -> None:
    stopping = replace(FREE, stop_code=StopCode.CANCELLED)
    for after in (after_cancel, after_tool):
        assert after(replace(stopping, open_steps=1)) == Wait()
        assert after(stopping) == End(RunStatus.CANCELLED, "cancelled", stop=StopCode.CANCELLED)
    assert after_failure("x", "y", stopping) == End(RunStatus.CANCELLED, "cancelled", stop=StopCode.CANCELLED)


def test_a_model_that_could_not_be_asked_fails_the_run_with_its_code() -> None:
    assert after_failure("billing_error", "no money", FREE) == End(RunStatus.FAILED, "billing_error", "no money")
