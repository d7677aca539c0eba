"""What a declaration makes of a function, and which functions it refuses."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from app.domain.effect import Effect
from app.domain.errors import ConfigError
from app.tools import ToolCall, tool


class Node(BaseModel):
    name: str
    children: list[Node] = []


def pay(amount: Decimal, to: Annotated[str, Field(min_length=2)], tree: Node | None = None, *, call: ToolCall) -> str:
    """Pay someone.

    Money moves at once.

    Args:
        amount: in euros.
        to: who gets it.
        call: from the runtime.

    Returns:
        The receipt.
    """
    return f"{amount} {to} {tree} {call.idempotency_key}"


def test_docstring_and_signature_are_what_the_model_sees() -> None:
    definition = tool(effect="KEYED", queue="money", timeout_s=5, approval="always")(pay).definition
    assert definition.name == "pay"
    assert definition.description == "Pay someone.\n\nMoney moves at once.\n\nReturns: The receipt."
    assert (definition.effect, definition.queue, definition.timeout_s, definition.approval) == (
        Effect.KEYED,
        "money",
        5.0,
        "always",
    )
    schema = definition.input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["amount", "to"]
    assert schema["properties"]["amount"]["description"] == "in euros."
    assert schema["properties"]["to"] == {"type": "string", "minLength": 2, "description": "who gets it."}
    assert "Node" in schema["$defs"]
    assert "title" not in schema


def test_the_call_is_injected_and_hidden_from_the_model(call: ToolCall) -> None:
    pay_tool = tool(effect="KEYED")(pay)
    assert "call" not in pay_tool.definition.input_schema["properties"]
    said = pay_tool.invoke({"amount": "1.10", "to": "Ann"}, call)
    assert said == "1.10 Ann None run-1:4"


def test_an_optional_call_is_injected_too(call: ToolCall) -> None:
    def who(call: ToolCall | None = None) -> str:
        return call.id if call else "nobody"

    declared = tool(effect="READ")(who)
    assert declared.definition.input_schema["properties"] == {}
    assert (declared(), declared.invoke({}, call)) == ("nobody", "toolu_1")


def test_a_tool_is_still_the_plain_function(call: ToolCall) -> None:
    pay_tool = tool(effect="KEYED")(pay)
    assert pay_tool(Decimal(2), "x", call=call) == pay(Decimal(2), "x", call=call)
    assert inspect.signature(pay_tool) == inspect.signature(pay)
    assert pay_tool.__doc__ == pay.__doc__


def test_a_bound_method_can_be_a_tool(call: ToolCall) -> None:
    class Desk:
        def greet(self, name: str) -> str:
            """Greet."""
            return f"hello {name}"

    assert tool(effect="READ")(Desk().greet).invoke({"name": "Ann"}, call) == "hello Ann"


@pytest.mark.parametrize("effect", list(Effect))
def test_a_missing_or_unknown_effect_names_the_four(effect: Effect) -> None:
    for wrong in (None, "WRITE", "read"):
        with pytest.raises(ConfigError, match=effect):
            tool(effect=wrong)(pay)
    with pytest.raises(ConfigError, match=effect):
        tool()(pay)
    with pytest.raises(ConfigError, match=effect):
        tool(pay)


def test_verify_belongs_to_verified_tools_and_only_to_them() -> None:
    def verify(call: ToolCall) -> str:
        return call.idempotency_key

    assert tool(effect="VERIFIED", verify=verify)(pay).verify is verify
    with pytest.raises(ConfigError, match="give verify="):
        tool(effect="VERIFIED")(pay)
    for effect in ("READ", "KEYED", "UNSAFE"):
        with pytest.raises(ConfigError, match="VERIFIED tools only"):
            tool(effect=effect, verify=verify)(pay)


@pytest.mark.parametrize("name", ["", "a b", "é", "a.b", "x" * 65, "ok\n"])
def test_names_that_the_api_refuses_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="1 to 64"):
        tool(effect="READ", name=name)(pay)
    assert tool(effect="READ", name="x" * 64)(pay).name == "x" * 64


@pytest.mark.parametrize(
    "rule", [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"queue": ""}, {"queue": "a b"}, {"approval": "maybe"}]
)
def test_wrong_rules_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(rule))):
        tool(effect="READ", **rule)(pay)


async def coroutine() -> None: ...


async def async_generator() -> AsyncIterator[int]:
    yield 1


def generator() -> Iterator[int]:
    yield 1


def many(*args: int) -> None: ...


def keywords(**kwargs: int) -> None: ...


def by_position(a: int, /) -> None: ...


def bare(a) -> None: ...  # type: ignore[no-untyped-def]


def unresolved(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unreadable(a: object, b: Iterator[Opaque]) -> None: ...


def field_default(a: int = Field(3, ge=1)) -> None: ...


class Opaque:
    pass


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (coroutine, "is async"),
        (async_generator, "is async"),
        (generator, "yields"),
        (many, r"\*args: 'int' cannot be"),
        (keywords, r"\*\*kwargs: 'int' cannot be"),
        (by_position, None),
        (bare, "parameter a needs a type annotation"),
        (unresolved, "do not resolve: name 'NoSuchType'"),
        (unreadable, "cannot be read from JSON"),
        (field_default, "Annotated"),
        (print, "over a function"),
        (Opaque, "over a function"),
    ],
)
def test_functions_that_cannot_be_tools_are_refused_with_a_sentence(function: Any, sentence: str | None) -> None:
    with pytest.raises(ConfigError, match=sentence):
        tool(effect="READ")(function)


def test_parameter_names_that_pydantic_reserves_are_fine(call: ToolCall) -> None:
    def odd(model_config: int, schema: int, _private: int, copy: int = 4) -> list[int]:
        return [model_config, schema, _private, copy]

    declared = tool(effect="READ")(odd)
    assert list(declared.definition.input_schema["properties"]) == ["model_config", "schema", "_private", "copy"]
    assert declared.invoke({"model_config": 1, "schema": 2, "_private": 3}, call) == [1, 2, 3, 4]


def test_a_default_that_json_cannot_spell_is_not_shown_and_still_applies(call: ToolCall) -> None:
    marker = object()

    def odd(a: Any = marker) -> bool:
        return a is marker

    declared = tool(effect="READ")(odd)
    assert declared.definition.input_schema["properties"] == {"a": {}}
    assert declared.invoke({}, call)


def test_the_schema_has_no_choice_at_its_top_level(call: ToolCall) -> None:
    @dataclass
    class Cat:
        lives: int

    @dataclass
    class Dog:
        tricks: list[str]

    def feed(pet: Cat | Dog) -> str:
        return type(pet).__name__

    feed.__annotations__["pet"] = Cat | Dog
    declared = tool(effect="READ")(feed)
    assert {"oneOf", "anyOf", "allOf", "$ref"}.isdisjoint(declared.definition.input_schema)
    assert declared.invoke({"pet": {"tricks": ["sit"]}}, call) == "Dog"


def test_a_time_limited_call_counts_down_and_keeps_one_key_over_attempts() -> None:
    now = [100.0]
    first = ToolCall("r", 2, "toolu", 10.0, attempt=1, clock=lambda: now[0])
    again = ToolCall("r", 2, "toolu", 10.0, attempt=2, clock=lambda: now[0])
    now[0] += 4
    assert first.time_left() == 6.0
    now[0] += 40
    assert first.time_left() == 0.0
    assert first.idempotency_key == again.idempotency_key == "r:2"
    assert not first.stopped()
