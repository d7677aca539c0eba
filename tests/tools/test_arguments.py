"""What the model's arguments become, and what it reads when they do not fit."""

import uuid
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from app.domain.errors import BadArguments
from app.tools import Tool, ToolCall, tool

CALL = ToolCall(run_id="r", seq=1, id="toolu", seconds_left=1.0)


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


def echo_of(kind: Any) -> Tool[..., Any]:
    def echo(value):  # type: ignore[no-untyped-def]
        return value

    echo.__annotations__ = {"value": kind}
    return tool(effect="READ")(echo)


@pytest.mark.parametrize(
    ("kind", "sent", "right"),
    [
        (date, "2025-03-01", date(2025, 3, 1)),
        (datetime, "2025-03-01T10:00:00", datetime(2025, 3, 1, 10)),  # noqa: DTZ001
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 2, Decimal(2)),
        (Colour, "red", Colour.RED),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (set[int], [1, 2, 1], {1, 2}),
        (Point, {"x": 1}, Point(x=1)),
        (float, 2, 2.0),
        (str, "a\x00b 😀", "a\x00b 😀"),
        (int | None, None, None),
    ],
)
def test_what_json_cannot_spell_is_read_from_its_text_form(kind: Any, sent: Any, right: Any) -> None:
    assert echo_of(kind).invoke({"value": sent}, CALL) == right


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (int, "5"),
        (int, True),
        (int, 5.0),
        (int, None),
        (float, "5"),
        (float, True),
        (bool, 1),
        (bool, "true"),
        (str, 5),
        (date, 5),
        (Colour, "blue"),
        (Literal["a"], "b"),
        (list[int], ["1"]),
        (Point, {"x": "1"}),
    ],
)
def test_a_value_of_another_type_is_refused_and_not_converted(kind: Any, sent: Any) -> None:
    with pytest.raises(BadArguments, match=r"- value.*: Input should be"):
        echo_of(kind).invoke({"value": sent}, CALL)


@given(st.integers() | st.integers(min_value=2**53 - 2, max_value=2**53 + 2) | st.integers(10**30, 10**40))
def test_integers_arrive_exact_whatever_their_size(number: int) -> None:
    assert echo_of(int).invoke({"value": number}, CALL) == number
    assert echo_of(Any).invoke({"value": {"id": [number]}}, CALL) == {"id": [number]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_json_value_reaches_the_function_as_it_was(value: Any) -> None:
    arrived = echo_of(Any).invoke({"value": value}, CALL)
    assert repr(arrived) == repr(value)


def test_a_refused_call_never_runs_the_function() -> None:
    ran: list[int] = []

    @tool(effect="UNSAFE")
    def charge(amount: int) -> None:
        ran.append(amount)

    for wrong in ({"amount": "5"}, {}, {"amount": 5, "extra": 1}, None, [5], "5"):
        with pytest.raises(BadArguments):
            charge.invoke(wrong, CALL)
    assert ran == []
    charge.invoke({"amount": 5}, CALL)
    assert ran == [5]


def test_the_complaint_names_every_wrong_field_and_what_was_expected() -> None:
    @tool(effect="READ")
    def move(start: Point, mode: Literal["walk", "ride"], steps: int) -> None: ...

    with pytest.raises(BadArguments) as caught:
        move.invoke({"start": {"x": "secret"}, "mode": "fly", "speed": 3}, CALL)
    assert str(caught.value).splitlines() == [
        "Invalid arguments for move; it did not run.",
        "- start.x: Input should be a valid integer (got a string)",
        "- mode: Input should be 'walk' or 'ride' (got a string)",
        "- steps: required, but missing",
        "- speed: not known here; leave it out",
        "Its arguments are: start, mode, steps.",
    ]


@pytest.mark.parametrize(
    ("sent", "kind"), [(None, "null"), ([], "an array"), ("x", "a string"), (5, "an integer"), (True, "a boolean")]
)
def test_arguments_that_are_no_object_are_refused_by_name(sent: Any, kind: str) -> None:
    with pytest.raises(BadArguments, match=f"must be a JSON object, not {kind}"):
        echo_of(int).invoke(sent, CALL)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud835", 10**5000], ids=["nan", "inf", "torn", "huge"])
def test_what_json_text_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(BadArguments):
        echo_of(Any).invoke({"value": value}, CALL)


def test_nesting_without_end_is_refused() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(BadArguments):
        echo_of(Any).invoke({"value": value}, CALL)


def test_the_complaint_is_bounded_and_clean_whatever_was_sent() -> None:
    sent = {f"\x00{'k' * 5000}{n}": "v" * 100_000 for n in range(500)}
    with pytest.raises(BadArguments) as caught:
        echo_of(int).invoke({"value": 5, **sent}, CALL)
    text = str(caught.value)
    assert len(text) < 3000
    assert "\x00" not in text
    assert "vvv" not in text
    assert "and 490 more" in text


def test_an_error_of_the_function_itself_is_not_taken_for_bad_arguments() -> None:
    @tool(effect="READ")
    def fails(n: int) -> None:
        Point.model_validate({"x": "no"})

    with pytest.raises(ValueError, match="valid integer") as caught:
        fails.invoke({"n": 1}, CALL)
    assert not isinstance(caught.value, BadArguments)
