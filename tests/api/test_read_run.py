"""What GET shows: runs, their timelines, the list with its cursor; and the problems of all routes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.domain.status import StopCode
from tests.support.api_site import Site
from tests.support.builders import (
    AGENT,
    answer,
    claimed,
    new_run,
    returned,
    set_run,
    started_model,
    text_answer,
)

PROBLEM = "application/problem+json"
BIG = 123456789012345678901234567890


def get(site: Site, path: str, status: int = 200) -> Any:
    response = site.client.get(path)
    assert response.status_code == status, response.text
    return response.get_json()


def test_finished_run_and_its_timeline_tell_what_happened_and_what_it_cost(site: Site) -> None:
    site.model.then_tool_use("toolu_1", "list_tickets", {"customer": "acme"}, 100, 20).then_text("Two.", 200, 10)
    run = site.work_off(site.new_run(input="Which acme tickets are overdue?", costBudgetUsd="0.5"))
    assert (run["status"], run["output"], run["steps"]) == ("SUCCEEDED", "Two.", 3)
    assert (run["tokensUsed"], run["costUsd"], run["costBudgetUsd"]) == (330, "0.000495", "0.5")
    assert run["createdAt"].endswith("Z")
    assert run["finishedAt"] >= run["createdAt"]
    assert (run["errorCode"], run["stopCode"], run["unpricedCalls"]) == (None, None, 0)
    first, tool, last = get(site, f"/api/runs/{run['id']}/timeline")
    assert [(s["seq"], s["kind"], s["status"], s["turn"]) for s in (first, tool, last)] == [
        (1, "MODEL", "DONE", 1),
        (2, "TOOL", "DONE", 1),
        (3, "MODEL", "DONE", 2),
    ]
    assert (first["stopReason"], first["usage"]["inputTokens"], first["costUsd"]) == ("tool_use", 100, "0.00018")
    assert first["content"][0]["input"] == {"customer": "acme"}
    assert (tool["toolName"], tool["toolUseId"], tool["input"]) == ("list_tickets", "toolu_1", {"customer": "acme"})
    assert (tool["attempt"], tool["node"], tool["queue"], tool["effect"]) == (1, "node-a", "tool", "READ")
    assert "T-10" in json.dumps(tool["result"])


def test_numbers_of_any_length_come_out_as_they_went_in(site: Site) -> None:
    exact = f'{{"id":9007199254740993,"big":{BIG},"third":0.1000000000000000000000000001}}'
    run_id, claim = started_model(site.store)
    blocks = f'[{{"type":"tool_use","id":"toolu_1","name":"look","input":{exact}}}]'
    site.store.finish_model_step(claim.lease, answer_text(blocks), AGENT)
    tool = claimed(site.store, run_id, 2)
    site.store.finish_tool_step(tool.lease, returned(str(BIG)))
    text = site.client.get(f"/api/runs/{run_id}/timeline").text
    assert f'"content":{blocks}' in text
    shown = json.loads(text)[1]
    assert (shown["input"]["id"], shown["input"]["big"]) == (9007199254740993, BIG)


def answer_text(blocks: str) -> Any:
    """An answer whose blocks are this JSON text, letter for letter."""
    return replace(answer(json.loads(blocks), stop_reason="tool_use"), response=blocks)


def test_model_output_that_overflows_a_number_is_still_shown_as_json(sqlite_site: Site) -> None:
    run_id, claim = started_model(sqlite_site.store)
    blocks = '[{"type":"text","text":"x","n":Infinity}]'
    sqlite_site.store.finish_model_step(claim.lease, replace(text_answer("x"), response=blocks), AGENT)
    text = sqlite_site.client.get(f"/api/runs/{run_id}/timeline").text
    shown = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert shown[0]["content"] == blocks


def test_cost_of_a_model_without_a_price_is_unknown_not_zero(sqlite_site: Site) -> None:
    sqlite_site.model.then_text("Hi.", 10, 5)
    run = sqlite_site.work_off(sqlite_site.new_run(model="claude-nobody-knows"))
    assert (run["costUsd"], run["unpricedCalls"], run["tokensUsed"]) == (None, 1, 15)
    assert get(sqlite_site, f"/api/runs/{run['id']}/timeline")[0]["costUsd"] is None


def test_unique_prefix_finds_the_run(site: Site) -> None:
    run_id = site.new_run()
    for prefix in (run_id[:8], run_id[:13], run_id.replace("-", ""), run_id.upper()):
        assert get(site, f"/api/runs/{prefix}")["id"] == run_id
        assert get(site, f"/api/runs/{prefix}/timeline")[0]["seq"] == 1


def test_prefix_of_several_runs_is_a_409(site: Site) -> None:
    # Seventeen ids: two of them begin with the same of sixteen digits.
    ids = site.seed(17)
    first = next(c for c in "0123456789abcdef" if sum(run_id.startswith(c) for run_id in ids) > 1)
    for path in (f"/api/runs/{first}", f"/api/runs/{first}/timeline"):
        assert get(site, path, 409)["status"] == 409


@pytest.mark.parametrize("run_id", ["00000000", "zz", "x" * 40, "%00", "%F0%9F%98%80", "-"])
def test_unknown_run_is_a_404_on_every_route(sqlite_site: Site, run_id: str) -> None:
    for response in (
        sqlite_site.client.get(f"/api/runs/{run_id}"),
        sqlite_site.client.get(f"/api/runs/{run_id}/timeline"),
        sqlite_site.client.post(f"/api/runs/{run_id}/cancel"),
    ):
        assert (response.status_code, response.content_type) == (404, PROBLEM)


def test_run_of_another_tenant_does_not_exist(site: Site) -> None:
    theirs, _ = site.store.create_run(new_run(tenant="theirs"))
    get(site, f"/api/runs/{theirs}", 404)
    assert get(site, "/api/runs")["items"] == []
    assert site.client.post(f"/api/runs/{theirs}/cancel").status_code == 404


def test_pages_hold_every_run_once_even_when_new_ones_arrive(site: Site) -> None:
    ids = site.seed(7)
    for run_id in ids[:3]:  # the id decides between equal moments
        set_run(site.store, run_id, created_at=site.store.get_run("default", ids[0]).created_at)
    path, seen = "/api/runs?limit=3", []
    while path:
        response = site.client.get(path)
        page = response.get_json()
        seen += [run["id"] for run in page["items"]]
        site.seed(1)
        link = response.headers.get("Link", "")
        path = link.removeprefix("<").removesuffix('>; rel="next"')
        assert bool(page["nextCursor"]) == bool(link)
    assert len(seen) == 7
    assert set(seen) == set(ids)


def test_list_is_filtered_by_shown_status_and_keeps_it_on_the_next_page(site: Site) -> None:
    queued = site.seed(3)
    started, _ = started_model(site.store)
    site.store.stop_run(queued[0], StopCode.CANCELLED)
    assert [run["id"] for run in get(site, "/api/runs?status=RUNNING")["items"]] == [started]
    assert [run["id"] for run in get(site, "/api/runs?status=CANCELLED")["items"]] == [queued[0]]
    response = site.client.get("/api/runs?status=QUEUED&limit=1")
    assert "status=QUEUED" in response.headers["Link"]
    rest = get(site, response.headers["Link"].split(">")[0][1:])
    assert [run["id"] for run in rest["items"]] == [queued[1]]
    assert rest["nextCursor"] is None


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=101",
        "limit=1.5",
        "limit=",
        "limit=ten",
        "limit=%D9%A1",
        "limit=1&limit=2",
        "status=running",
        "status=ACTIVE",
        "status=",
        "cursor=x",
        "cursor=",
        "cursor=%C3%A9",
        "cursor=MjAyNi0xMS0zMCBhYmM",
        "page=2",
    ],
)
def test_wrong_query_is_a_422_that_names_the_parameter(sqlite_site: Site, query: str) -> None:
    said = get(sqlite_site, f"/api/runs?{query}", 422)
    assert said["errors"][0]["parameter"] == query.partition("=")[0]


def test_cancel_of_a_queued_run_ends_it_and_again_changes_nothing(site: Site) -> None:
    run_id = site.new_run()
    first = site.client.post(f"/api/runs/{run_id[:8]}/cancel")
    assert (first.status_code, first.get_json()["status"]) == (202, "CANCELLED")
    assert first.get_json()["stopCode"] == "cancelled"
    again = site.client.post(f"/api/runs/{run_id}/cancel")
    assert (again.status_code, again.get_json()) == (200, first.get_json())


def test_cancel_of_a_run_at_work_is_accepted_and_named_until_it_stops(site: Site) -> None:
    run_id, _ = started_model(site.store)
    for _ in range(2):
        response = site.client.post(f"/api/runs/{run_id}/cancel")
        assert response.status_code == 202
        assert (response.get_json()["status"], response.get_json()["stopCode"]) == ("RUNNING", "cancelled")


def test_cancel_of_a_finished_run_leaves_it_as_it_is(site: Site) -> None:
    site.model.then_text("Done.", 1, 1)
    run = site.work_off(site.new_run())
    response = site.client.post(f"/api/runs/{run['id']}/cancel")
    assert (response.status_code, response.get_json()) == (200, run)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("DELETE", "/api/runs", 405), ("PUT", "/api/runs/abc", 405), ("GET", "/api/runs/", 404)],
)
def test_http_errors_are_problems_too(sqlite_site: Site, method: str, path: str, status: int) -> None:
    response = sqlite_site.client.open(path, method=method)
    assert (response.status_code, response.content_type) == (status, PROBLEM)
    assert response.get_json()["instance"] == path
    assert ("Allow" in response.headers) == (status == 405)


def test_bug_is_a_500_that_keeps_its_secrets(sqlite_site: Site) -> None:
    @sqlite_site.client.application.get("/bug")
    def bug() -> str:
        raise RuntimeError("SELECT secret")

    response = sqlite_site.client.get("/bug")
    assert (response.status_code, response.content_type) == (500, PROBLEM)
    assert "secret" not in response.text
