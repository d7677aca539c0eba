"""The fields of a request, and where its cache breakpoints sit."""

import copy
from typing import Any

from app.llm.client import ModelRequest
from app.llm.request_body import request_body

EPHEMERAL = {"type": "ephemeral"}
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}},
    {"name": "sub", "description": "Subtracts.", "input_schema": {"type": "object"}},
]


def test_a_bare_request_has_only_what_must_be_there_and_automatic_caching() -> None:
    assert request_body(ModelRequest("m", 100, MESSAGES)) == {
        "model": "m",
        "max_tokens": 100,
        "messages": MESSAGES,
        "cache_control": EPHEMERAL,
    }


def test_the_fixed_breakpoint_is_at_the_end_of_the_system_text() -> None:
    body = request_body(ModelRequest("m", 100, MESSAGES, system="Be brief.", tools=TOOLS))
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}]
    assert body["tools"] == TOOLS


def test_without_a_system_text_it_is_at_the_end_of_the_tools() -> None:
    for system in (None, ""):
        body = request_body(ModelRequest("m", 100, MESSAGES, system=system, tools=TOOLS))
        assert "system" not in body
        assert body["tools"] == [TOOLS[0], {**TOOLS[1], "cache_control": EPHEMERAL}]


def test_thinking_and_effort_go_where_the_api_wants_them() -> None:
    body = request_body(ModelRequest("m", 100, MESSAGES, thinking={"type": "between_tools"}, effort="low"))
    assert (body["thinking"], body["output_config"]) == ({"type": "between_tools"}, {"effort": "low"})


def test_the_request_is_not_changed() -> None:
    request = ModelRequest("m", 100, MESSAGES, tools=TOOLS)
    before = copy.deepcopy(request)
    request_body(request)["tools"].append({})
    assert request == before
