"""Each rule of the local Messages API, by a raw request that breaks it and no other: status, type and text."""

import copy
from collections.abc import Iterator
from typing import Any

import anthropic.types as sdk
import pytest
from anthropic.types import message_create_params
from hypothesis import given
from hypothesis import strategies as st

from app.llm.fake import demo_model, rules, rules_content, rules_history, rules_request, rules_tools
from app.llm.fake.scripts import key_of
from app.llm.fake.tokens import PromptCache
from app.llm.fake_server import FakeServer
from tests.support.broken_requests import CASES, MARK, RESULT, TEXT, TOOL, USE, Rule, assistant, talk, user
from tests.support.raw_api import ask, call

LEGAL: dict[str, Any] = {
    "plain": ask(),
    "every field": ask(
        system="Be brief.",
        metadata={"user_id": "u"},
        stop_sequences=["END"],
        thinking={"type": "adaptive"},
        output_config={"effort": "low"},
        service_tier="auto",
        tool_choice={"type": "auto"},
        tools=[TOOL],
        cache_control=MARK,
    ),
    "results before text": talk(user(TEXT), assistant(TEXT, USE), user(RESULT, TEXT), tools=[TOOL]),
    "results in any order": talk(
        user(TEXT), assistant(USE, {**USE, "id": "toolu_2"}), user({**RESULT, "tool_use_id": "toolu_2"}, RESULT)
    ),
    "messages of one role in a row": talk(
        user(TEXT), user(TEXT), assistant(TEXT), assistant(USE), user(RESULT), user(TEXT)
    ),
    "a result without content": talk(
        user(TEXT), assistant(USE), user({"type": "tool_result", "tool_use_id": "toolu_1"})
    ),
    "an unknown block echoed": talk(user(TEXT), assistant({"type": "zork", "x": 1}, {**TEXT, "y": 2}), user(TEXT)),
    "a server tool still at work": talk(
        user(TEXT), assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    ),
    "four breakpoints": talk(
        user({**TEXT, "cache_control": MARK}),
        system=[{**TEXT, "cache_control": MARK}],
        tools=[{**TOOL, "cache_control": MARK}],
        cache_control=MARK,
    ),
    "a system message in mid-conversation": talk(user(TEXT), {"role": "system", "content": "Be brief."}),
}


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.mark.parametrize(("rule", "body", "message"), CASES, ids=[f"{n}-{c[0].__name__}" for n, c in enumerate(CASES)])
def test_request_that_breaks_a_rule_is_refused_with_the_apis_text(
    fake: FakeServer, rule: Rule, body: Any, message: str
) -> None:
    answer = call(fake.url, body)
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert answer.error["message"] == message
    assert rule(body) == message


@pytest.mark.parametrize("name", LEGAL)
def test_legal_request_is_answered(fake: FakeServer, name: str) -> None:
    assert call(fake.url, LEGAL[name]).status == 200


def test_every_rule_of_the_table_has_a_request_that_breaks_it() -> None:
    assert {rule for rule, _, _ in CASES} == {*rules.RULES, rules_history.no_prefill}


def test_fields_of_a_request_are_those_of_the_sdk() -> None:
    in_headers = {"user_profile_id", "workspace_id"}
    assert set(rules_request.FIELDS) == (
        set(message_create_params.MessageCreateParamsNonStreaming.__annotations__) - in_headers
    )


@pytest.mark.parametrize("kind", rules_content.USER_FIELDS)
def test_fields_of_a_user_block_are_those_of_the_sdk(kind: str) -> None:
    names = {"tool_result": "ToolResultBlockParam", "search_result": "SearchResultBlockParam"}
    param = getattr(sdk, names.get(kind, "".join(part.title() for part in kind.split("_")) + "BlockParam"))
    assert rules_content.USER_FIELDS[kind] == set(param.__annotations__)


def test_fields_of_a_tool_are_those_of_the_sdk() -> None:
    assert set(sdk.ToolParam.__annotations__) == rules_tools.FIELDS


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "x"]), inner)
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, key) for key, _ in pairs] + [place for _, part in pairs for place in places(part)]


@given(st.data())
def test_request_spoilt_at_any_place_is_refused_or_answered_but_never_breaks_the_server(data: st.DataObject) -> None:
    body = copy.deepcopy(LEGAL[data.draw(st.sampled_from(sorted(LEGAL)))])
    container, key = data.draw(st.sampled_from(places(body)))
    container[key] = data.draw(JSON)
    key_of(body)
    if rules.validate(body) is None:
        demo_model.answer(body)
        PromptCache().prompt_usage(body)
