"""The keyless demo's model: which tool it calls for which question, and that its answer is made from the result."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from app.llm.fake_server import FakeServer
from tests.support.raw_api import ask

LIST = {
    "name": "list_tickets",
    "description": "Tickets that fit.",
    "input_schema": {
        "type": "object",
        "properties": {
            "customer": {"type": "string"},
            "status": {"type": "string"},
            "overdue": {"type": "boolean"},
        },
    },
}
SLOW = {
    "name": "slow_ticket_report",
    "description": "A report that takes its time.",
    "input_schema": {"type": "object", "properties": {"customer": {"type": "string"}}},
}
QUESTION = "Which acme tickets are overdue?"
TICKETS = [
    {"id": "T-17", "customer": "acme", "subject": "Door jams", "due_on": "2026-02-03", "status": "open"},
    {"id": "T-99", "customer": "acme", "subject": "Lamp out", "due_on": "2026-01-09", "status": "open"},
]


@pytest.fixture(scope="module")
def client() -> Iterator[anthropic.Anthropic]:
    with FakeServer() as server, anthropic.Anthropic(api_key="any", base_url=server.url, max_retries=0) as each:
        yield each


def say(client: anthropic.Anthropic, **body: Any) -> dict[str, Any]:
    with client.messages.stream(**body) as stream:
        return stream.get_final_message().to_dict(mode="json")


def call_for(client: anthropic.Anthropic, question: str, *tools: Any) -> tuple[str, dict[str, Any]]:
    content = say(client, **ask(question, tools=list(tools)))["content"]
    assert [block["type"] for block in content] == ["text", "tool_use"]
    return content[1]["name"], content[1]["input"]


def final_text(client: anthropic.Anthropic, content: Any, *, is_error: bool = False) -> str:
    use = {"type": "tool_use", "id": "toolu_1", "name": "list_tickets", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": is_error}
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    message = say(client, **ask(messages=messages, tools=[LIST]))
    assert message["stop_reason"] == "end_turn"
    text: str = message["content"][0]["text"]
    return text


@pytest.mark.parametrize(
    ("question", "arguments"),
    [
        (QUESTION, {"customer": "acme", "overdue": True}),
        ("Show me all overdue tickets for Globex.", {"customer": "globex", "overdue": True}),
        ("Are acme's tickets closed?", {"customer": "acme", "status": "closed"}),
        ("Which overdue tickets does initech have?", {"customer": "initech", "overdue": True}),
        ("Which overdue acme tickets are there?", {"customer": "acme", "overdue": True}),
        ("What is overdue?", {"overdue": True}),
        ("List the open tickets", {"status": "open"}),
    ],
)
def test_question_about_tickets_calls_the_list_with_what_it_says(
    client: anthropic.Anthropic, question: str, arguments: dict[str, Any]
) -> None:
    assert call_for(client, question, LIST, SLOW) == ("list_tickets", arguments)


def test_only_arguments_that_the_tool_takes_are_given(client: anthropic.Anthropic) -> None:
    narrow = {**LIST, "input_schema": {"type": "object", "properties": {"overdue": {"type": "boolean"}}}}
    assert call_for(client, QUESTION, narrow) == ("list_tickets", {"overdue": True})


def test_slow_work_calls_the_slow_report(client: anthropic.Anthropic) -> None:
    question = "Make the slow report of acme tickets"
    assert call_for(client, question, LIST, SLOW) == ("slow_ticket_report", {"customer": "acme"})
    assert call_for(client, question, LIST)[0] == "list_tickets"


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"tickets": rows}], ids=["list", "object"])
def test_answer_names_the_tickets_of_the_result_and_no_others(client: anthropic.Anthropic, wrap: Any) -> None:
    text = final_text(client, json.dumps(wrap(TICKETS)))
    assert text.startswith("2 tickets fit:")
    for ticket in TICKETS:
        assert all(ticket[name] in text for name in ("id", "subject", "due_on"))
    one = final_text(client, [{"type": "text", "text": json.dumps(wrap(TICKETS[:1]))}])
    assert "T-17" in one
    assert "T-99" not in one


@pytest.mark.parametrize("content", ["[]", '{"tickets": []}'])
def test_empty_result_is_said_to_be_empty(client: anthropic.Anthropic, content: str) -> None:
    assert final_text(client, content) == "No tickets: the tool found none that fit."


def test_failed_tool_is_said_to_have_failed(client: anthropic.Anthropic) -> None:
    assert final_text(client, "disk on fire", is_error=True) == "The tool could not answer: disk on fire"


@pytest.mark.parametrize("content", ["no JSON", "", "[1, 2]", '{"x": 1}', [], "null"])
def test_any_other_result_still_gets_an_answer(client: anthropic.Anthropic, content: Any) -> None:
    assert final_text(client, content).startswith("The tool answered")


@pytest.mark.parametrize("tools", [[], [LIST]])
def test_any_other_question_is_told_that_this_is_the_demo_model(client: anthropic.Anthropic, tools: list[Any]) -> None:
    message = say(client, **ask("Write a poem", tools=tools))
    assert "local demo model" in message["content"][0]["text"]
    assert message["stop_reason"] == "end_turn"
