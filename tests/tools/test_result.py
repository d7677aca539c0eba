"""Whatever a tool returns or raises becomes bounded, valid text."""

import base64
import json
import tracemalloc
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from app.domain.errors import ToolError
from app.tools.result import error_text, result_text

MARKER_CHARS = 80


def content(value: Any, max_chars: int = 10_000) -> Any:
    text = result_text(value, max_chars)
    text.encode("utf-8")
    return json.loads(text)


class Level(Enum):
    HIGH = 3


@dataclass
class Row:
    id: int
    at: date


class Account(BaseModel):
    name: str
    password: str = Field(exclude=True)


class Silent:
    pass


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("no class either")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("nor this")

    __hash__ = object.__hash__


class Liar(dict[str, int]):
    def items(self) -> Any:
        return [1, 2]


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("", ""),
        (None, ""),
        ("as it is 😀\n", "as it is 😀\n"),
        (True, "true"),
        (0, "0"),
        (9007199254740993, "9007199254740993"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        ([], "[]"),
        ({}, "{}"),
        (set(), "[]"),
        ({"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'),
        ((1, 2), "[1,2]"),
        (deque([1]), "deque([1])"),
        ({3, 1, 2}, "[1,2,3]"),
        (frozenset({"b", "a"}), '["a","b"]'),
        ({"x": [float("inf"), -float("inf")]}, '{"x":["Infinity","-Infinity"]}'),
        (date(2025, 3, 1), "2025-03-01"),
        ([datetime(2025, 3, 1, tzinfo=UTC)], '["2025-03-01T00:00:00+00:00"]'),
        (Decimal("10.10"), "10.10"),
        (b"text \xc3\xa9", "text é"),
        (b"\xff\xfe", "base64://4="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (Level.HIGH, "3"),
        ({Level.HIGH: Level.HIGH}, '{"3":3}'),
        (Row(1, date(2025, 3, 1)), '{"id":1,"at":"2025-03-01"}'),
        (Account(name="a", password="p"), '{"name":"a"}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({7: "int key", None: 1, (1, 2): 2, "7": "str key"}, '{"7":"int key","null":1,"[1,2]":2,"7":"str key"}'),
        (Silent(), "[a value of type Silent that could not be written as text]"),
        ([Broken()], '["[a value of type Broken that could not be written as text]"]'),
        (Liar(a=1), "[a value of type Liar that could not be written as text]"),
        ({"n": 10**5000}, '{"n":"' + hex(10**5000) + '"}'),
    ],
)
def test_each_kind_of_value_has_its_stable_form(value: Any, right: str) -> None:
    assert content(value) == right


def test_nul_and_lone_surrogates_are_replaced_in_values_and_keys_and_nothing_else_is() -> None:
    torn = b"caf\x96 5".decode("utf-8", "surrogateescape")
    assert content("name\x00\x00end 😀") == "name\ufffd\ufffdend 😀"
    assert content({"k\x00": {"\ud835": [torn, "漢😀"]}}) == '{"k\ufffd":{"\ufffd":["caf\ufffd 5","漢😀"]}}'


def test_a_value_that_contains_itself_ends() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert content(loop) == '[1,"[not shown: contains itself, or is nested too deeply]"]'
    twice = [5]
    assert content([twice, twice]) == "[[5],[5]]"


def test_parts_that_are_shared_over_and_over_do_not_grow_without_end() -> None:
    lists: Any = [1]
    sets: Any = frozenset({1})
    for _ in range(60):
        lists = [lists, lists]
        sets = frozenset({sets, (sets,)})
    assert len(content(lists, 1000)) <= 1000 + MARKER_CHARS
    assert len(content(sets, 1000)) <= 1000 + MARKER_CHARS


def test_nesting_deeper_than_python_can_follow_ends() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in content(deep)


def test_a_long_text_is_cut_with_a_marker_that_says_how_much() -> None:
    said = content("ab\n" * 1000, 100)
    assert said.endswith("\n[2900 of 3000 characters cut]")
    assert said.startswith(("ab\n" * 33) + "a\n[")
    assert content("x" * 100, 100) == "x" * 100
    assert content(["x" * 500], 100) == '["' + "x" * 98 + "\n[the rest was cut after 100 characters]"


@pytest.mark.parametrize("nested", [False, True])
def test_fifty_megabytes_are_cut_without_copies_of_them(nested: bool) -> None:
    text = "ab\n" * (50 * 2**20 // 3)
    value: Any = {"out": [text]} if nested else text
    tracemalloc.start()
    try:
        said = content(value, 100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(said) <= 100_000 + MARKER_CHARS
    assert peak < 5 * 2**20


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
TEXT = {"type": "text", "text": "see"}


def test_well_formed_blocks_go_as_blocks() -> None:
    url = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    assert content([TEXT, PNG, url]) == [TEXT, PNG, url]
    assert content([{"type": "text", "text": "a\x00"}]) == [{"type": "text", "text": "a\ufffd"}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AAAA"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not base64"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
        {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
        {"type": "image", "source": "x"},
        {"type": "ticket", "id": 1},
        {"type": Broken()},
        {"type": None},
        {},
        "text",
    ],
)
def test_a_list_with_anything_else_in_it_is_data(block: Any) -> None:
    said = content([TEXT, block])
    assert isinstance(said, str)
    assert said.startswith('[{"type":"text","text":"see"},')


def test_blank_text_blocks_which_the_api_refuses_are_left_out() -> None:
    assert content([{"type": "text", "text": " \n"}, TEXT]) == [TEXT]
    assert content([{"type": "text", "text": ""}]) == ""


def test_blocks_that_do_not_fit_are_cut_with_a_marker() -> None:
    big = {**PNG, "source": {**PNG["source"], "data": base64.b64encode(b"x" * 3000).decode()}}  # type: ignore[dict-item]
    kept, note = content([TEXT, big, TEXT], 100)
    assert (kept, note["type"]) == (TEXT, "text")
    assert note["text"].startswith("[2 content blocks were cut")
    said = content([{"type": "text", "text": "y" * 300}], 100)
    assert said[0]["text"].startswith("y" * 100 + "\n[200 of 300")
    assert len(content([TEXT] * 5000)) == 101


@given(st.lists(st.sampled_from([TEXT, PNG, {"type": "text", "text": " \x00"}, {"type": "text", "text": "long" * 30}])))
def test_any_blocks_stay_bounded_and_legal(blocks: list[Any]) -> None:
    said = content(blocks, 100)
    if isinstance(said, list):
        assert said
        assert all(block["type"] != "text" or block["text"].strip() for block in said)
    assert len(json.dumps(said)) < 100 * 60


odd = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.datetimes()
    | st.timedeltas() | st.decimals() | st.uuids() | st.complex_numbers() | st.fractions()
    | st.text(st.characters(categories=["Cs", "Cc"]))
)  # fmt: skip
keys = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.tuples(st.integers())
values = st.recursive(
    odd | st.builds(Silent) | st.builds(Broken) | st.just(Level.HIGH) | st.builds(Row, st.integers(), st.dates()),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(keys, inner)
        | st.sets(keys)
        | st.builds(Row, inner, inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=30,
)


@given(values, st.integers(1, 300))
def test_any_value_becomes_bounded_json_text_without_nul(value: Any, max_chars: int) -> None:
    said = content(value, max_chars)
    assert isinstance(said, str)
    assert "\x00" not in said
    assert len(said) <= max_chars + MARKER_CHARS


@given(values)
def test_the_same_value_has_the_same_text(value: Any) -> None:
    assert result_text(value, 1000) == result_text(value, 1000)


@pytest.mark.parametrize(
    ("exception", "right"),
    [
        (ToolError("no ticket 5"), "no ticket 5"),
        (KeyError("id"), "KeyError: 'id'"),
        (ValueError(" "), "ValueError"),
        (ToolError(), "ToolError"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("a\x00\ud800"), "ValueError: a\ufffd\ufffd"),
        (ValueError(Broken()), "ValueError"),
    ],
)
def test_a_failure_has_a_text_that_is_never_empty(exception: BaseException, right: str) -> None:
    assert error_text(exception, 1000) == right


def test_the_text_of_a_failure_is_bounded() -> None:
    assert error_text(ToolError("x" * 10**6), 100) == "x" * 100 + "\n[999900 of 1000000 characters cut]"
