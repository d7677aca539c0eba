"""The first reason against going on: stop, deadline, tokens, cost, step cap, in that order."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.guard import Standing, guard
from app.domain.status import StopCode

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
REASONS: list[tuple[dict[str, Any], StopCode]] = [
    ({"stop_code": StopCode.CANCELLED}, StopCode.CANCELLED),
    ({"seconds_left": 0.0}, StopCode.DEADLINE),
    ({"tokens_used": 100}, StopCode.TOKEN_BUDGET),
    ({"cost_nano": 5, "cost_budget_nano": 5}, StopCode.COST_BUDGET),
    ({"next_seq": 11}, StopCode.STEP_CAP),
]


def test_nothing_stands_against_a_run_within_its_limits() -> None:
    assert guard(FREE, 1) is None
    assert guard(replace(FREE, cost_nano=10**12), 1) is None


@pytest.mark.parametrize("first", range(len(REASONS)))
def test_of_several_reasons_the_earlier_one_is_given(first: int) -> None:
    changes: dict[str, Any] = {}
    for reason, _ in REASONS[first:]:
        changes |= reason
    assert guard(replace(FREE, **changes), 1) is REASONS[first][1]


@pytest.mark.parametrize(
    ("changes", "opening"),
    [
        ({"tokens_used": 99}, 1),
        ({"cost_nano": 4, "cost_budget_nano": 5}, 1),
        ({"seconds_left": 0.001}, 1),
        ({"next_seq": 10}, 1),
        ({"next_seq": 8}, 3),
    ],
)
def test_the_last_unit_of_every_limit_may_still_be_used(changes: dict[str, Any], opening: int) -> None:
    assert guard(replace(FREE, **changes), opening) is None


def test_a_turn_that_does_not_fit_whole_is_refused_whole() -> None:
    assert guard(replace(FREE, next_seq=9), 3) is StopCode.STEP_CAP


@given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 20))
def test_a_run_never_gets_more_steps_than_its_cap(next_seq: int, step_cap: int, opening: int) -> None:
    allowed = guard(replace(FREE, next_seq=next_seq, step_cap=step_cap), opening) is None
    assert allowed == (next_seq - 1 + opening <= step_cap)
