"""POST /api/runs: what is taken, what is refused, with which status and pointer; a refused body starts nothing."""

import io
import json
from typing import Any

import pytest

from tests.support.api_site import Site

PROBLEM = "application/problem+json"
# What each scalar field must refuse, as JSON text. NaN and Infinity are no JSON: see below.
WRONG_INTEGERS = ["true", "-1", "0", "1e400", '"50"', "1" + "0" * 30, "1.5", "1.0", "null", "[]", "{}"]


def raw_post(site: Site, text: str | bytes, content_type: str = "application/json") -> Any:
    return site.client.post("/api/runs", data=text, content_type=content_type)


def body_with(field: str, text: str) -> str:
    """A right body as JSON text, but for one field."""
    fields = {"input": '"Hello?"', "tokenBudget": "50000", "timeoutSeconds": "300", field: text}
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


def pointers(response: Any) -> list[str]:
    assert response.status_code == 422, response.text
    assert response.content_type == PROBLEM
    return [fault["pointer"] for fault in response.get_json()["errors"]]


def test_run_is_accepted_written_down_and_dispatched_once(site: Site) -> None:
    response = site.post(metadata={"ticket": 7})
    assert response.status_code == 202
    run_id = response.get_json()["id"]
    assert response.get_json() == {"id": run_id, "status": "QUEUED"}
    assert response.headers["Location"] == f"/api/runs/{run_id}"
    assert [(d.run_id, d.seq, d.queue) for d in site.dispatcher.waiting] == [(run_id, 1, "model")]
    shown = site.client.get(response.headers["Location"]).get_json()
    assert (shown["status"], shown["metadata"], shown["tokenBudget"]) == ("QUEUED", {"ticket": 7}, 50_000)
    assert (shown["maxSteps"], shown["model"]) == (40, "claude-priced")


@pytest.mark.parametrize("field", ["tokenBudget", "timeoutSeconds", "maxSteps"])
@pytest.mark.parametrize("text", WRONG_INTEGERS)
def test_wrong_integers_are_refused_with_their_pointer(sqlite_site: Site, field: str, text: str) -> None:
    assert pointers(raw_post(sqlite_site, body_with(field, text))) == [f"/{field}"]
    assert sqlite_site.run_count() == 0


@pytest.mark.parametrize(
    ("field", "text", "pointer"),
    [
        ("input", '""', "/input"),
        ("input", '" \\n "', "/input"),
        ("input", "5", "/input"),
        ("input", "null", "/input"),
        ("input", "[]", "/input"),
        ("input", '[{"type":"text","text":"a"},{"text":"b"}]', "/input/1"),
        ("input", '[{"type":5}]', "/input/0"),
        ("input", '[{"type":"text","text":1e999}]', "/input/0/text"),
        ("model", "5", "/model"),
        ("model", '""', "/model"),
        ("model", '"claude\\n"', "/model"),
        ("model", '"' + "x" * 101 + '"', "/model"),
        ("model", "null", "/model"),
        ("system", "5", "/system"),
        ("costBudgetUsd", "true", "/costBudgetUsd"),
        ("costBudgetUsd", "0", "/costBudgetUsd"),
        ("costBudgetUsd", "-1", "/costBudgetUsd"),
        ("costBudgetUsd", '"1e3"', "/costBudgetUsd"),
        ("costBudgetUsd", '"NaN"', "/costBudgetUsd"),
        ("costBudgetUsd", '"0.0000000001"', "/costBudgetUsd"),
        ("costBudgetUsd", "0.0000000001", "/costBudgetUsd"),
        ("costBudgetUsd", "1e400", "/costBudgetUsd"),
        ("costBudgetUsd", "1e999999999999999999999", "/costBudgetUsd"),
        ("costBudgetUsd", "null", "/costBudgetUsd"),
        ("metadata", "[]", "/metadata"),
        ("metadata", "null", "/metadata"),
        ("metadata", '{"a":{"b~/c":1e400}}', "/metadata/a/b~0~1c"),
        ("metadata", '{"a":"' + "x" * 16_384 + '"}', "/metadata"),
        ("metadata", '{"a":' * 17 + "1" + "}" * 17, "/metadata" + "/a" * 16),
        ("token_budget", "5", "/token_budget"),
        ("temperature", "1", "/temperature"),
        ("timeoutSeconds", "3601", "/timeoutSeconds"),
        ("maxSteps", "41", "/maxSteps"),
        ("tokenBudget", str(2**53 + 1), "/tokenBudget"),
    ],
)
def test_what_the_schema_does_not_say_is_refused_with_a_pointer(
    sqlite_site: Site, field: str, text: str, pointer: str
) -> None:
    assert pointers(raw_post(sqlite_site, body_with(field, text))) == [pointer]
    assert sqlite_site.run_count() == 0


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "5", "true"])
def test_body_that_is_no_object_is_refused_as_a_whole(sqlite_site: Site, text: str) -> None:
    assert pointers(raw_post(sqlite_site, text)) == [""]


def test_all_faults_are_told_at_once(sqlite_site: Site) -> None:
    found = pointers(raw_post(sqlite_site, '{"tokenBudget":true,"extra":1}'))
    assert sorted(found) == ["/extra", "/input", "/timeoutSeconds", "/tokenBudget"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{'input': 1}",
        b'{"input": "\xff"}',
        body_with("tokenBudget", "NaN"),
        body_with("tokenBudget", "Infinity"),
        body_with("metadata", '{"a":-Infinity}'),
        body_with("tokenBudget", "9" * 5000),
        "[" * 20_000,
        body_with("metadata", '{"a":' * 5_000 + "1" + "}" * 5_000),
    ],
)
def test_what_is_not_json_is_a_400(sqlite_site: Site, text: str | bytes) -> None:
    response = raw_post(sqlite_site, text)
    assert (response.status_code, response.content_type) == (400, PROBLEM)
    assert sqlite_site.run_count() == 0


def test_deep_but_parsable_input_is_a_422(sqlite_site: Site) -> None:
    text = body_with("input", '[{"type":"text","x":' + "[" * 400 + "]" * 400 + "}]")
    assert pointers(raw_post(sqlite_site, text))[0].startswith("/input/0/x/0")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_media_type_is_a_415(sqlite_site: Site, content_type: str) -> None:
    response = raw_post(sqlite_site, body_with("input", '"Hi"'), content_type)
    assert (response.status_code, response.content_type) == (415, PROBLEM)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/vnd.acme+json"])
def test_kinds_of_json_are_taken(sqlite_site: Site, content_type: str) -> None:
    assert raw_post(sqlite_site, body_with("input", '"Hi"'), content_type).status_code == 202


def test_body_over_the_limit_is_a_413(sqlite_site: Site) -> None:
    response = sqlite_site.post(input="x" * 70_000)
    assert (response.status_code, response.content_type) == (413, PROBLEM)


def test_chunked_body_over_the_limit_is_a_413(sqlite_site: Site) -> None:
    response = sqlite_site.client.post(
        "/api/runs",
        input_stream=io.BytesIO(body_with("input", json.dumps("x" * 70_000)).encode()),
        content_type="application/json",
        environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"},
    )
    assert (response.status_code, response.content_type) == (413, PROBLEM)


def test_cost_budget_needs_a_model_with_a_price(sqlite_site: Site) -> None:
    assert pointers(sqlite_site.post(model="claude-nobody-knows", costBudgetUsd="1")) == ["/costBudgetUsd"]
    assert sqlite_site.run_count() == 0
    assert sqlite_site.post(model="claude-nobody-knows").status_code == 202


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"0.25"', "0.25"),
        ("0.1", "0.1"),
        ("1E-9", "0.000000001"),
        ("123456789.123456789", "123456789.123456789"),
        ("3", "3"),
    ],
)
def test_cost_budget_keeps_every_digit(sqlite_site: Site, text: str, shown: str) -> None:
    run_id = raw_post(sqlite_site, body_with("costBudgetUsd", text)).get_json()["id"]
    assert sqlite_site.client.get(f"/api/runs/{run_id}").get_json()["costBudgetUsd"] == shown


def test_what_no_database_can_hold_becomes_a_replacement_character(site: Site) -> None:
    text = body_with("input", r'[{"type":"text","text":"a\u0000b\ud800c"}]')[:-1]
    response = raw_post(site, text + r',"system":"\u0000","metadata":{"k\u0000":["\udfff",9007199254740993]}}')
    shown = site.client.get(response.headers["Location"]).get_json()
    assert shown["input"] == [{"type": "text", "text": "a\ufffdb\ufffdc"}]
    assert shown["metadata"] == {"k\ufffd": ["\ufffd", 9007199254740993]}


def test_agent_is_frozen_from_request_and_settings(sqlite_site: Site) -> None:
    asked = sqlite_site.new_run(model="m-1", system="Be brief.", maxSteps=3)
    default = sqlite_site.new_run()
    agents = [sqlite_site.store.read_history(run_id, 1).agent for run_id in (asked, default)]
    assert [(agent.model, agent.system) for agent in agents] == [
        ("m-1", "Be brief."),
        ("claude-priced", "You are a helpful assistant. Use the tools to find facts; do not guess."),
    ]
    assert [tool.name for tool in agents[0].tools] == ["get_ticket", "list_tickets", "slow_ticket_report"]


def test_post_on_a_database_that_is_away_is_a_503_without_its_words(away_site: Site) -> None:
    response = away_site.post()
    assert (response.status_code, response.content_type) == (503, PROBLEM)
    assert int(response.headers["Retry-After"]) > 0
    assert not any(word in response.text.lower() for word in ("hidden", "psycopg", "127.0.0.1", "insert"))
