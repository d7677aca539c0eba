"""`durable run` and `durable runs` against a real API on a socket: what is printed where, and every exit code."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.domain.errors import LlmError
from app.store.store import Store
from tests.support.api_site import Bell, Site, serving, site_over, working
from tests.support.builders import AGENT, answer, started_model

Durable = Callable[..., Result]
BIG = 123456789012345678901234567890


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def site(sqlite_store: Store, bell: Bell) -> Site:
    return site_over(sqlite_store, bell)


@pytest.fixture
def durable(site: Site) -> Iterator[Durable]:
    """Runs a command against the API of `site`."""
    with serving(site) as url:
        yield lambda *words, **env: CliRunner().invoke(main, words, env={"DURABLE_URL": url, **env})


def test_run_prints_the_id_alone_and_the_hint_elsewhere(durable: Durable, site: Site) -> None:
    result = durable("run", "Hello?", "--token-budget", "77", "--max-steps", "3", "--model", "m-1")
    assert result.exit_code == 0
    run = site.store.get_run("default", result.stdout.strip())
    assert (run.token_budget, run.step_cap, run.model, run.input) == (77, 3, "m-1", '"Hello?"')
    assert "durable runs tail" in result.stderr


def test_followed_run_prints_its_steps_and_its_answer(durable: Durable, site: Site, bell: Bell) -> None:
    site.model.then_tool_use("toolu_1", "list_tickets", {"customer": "acme"}, 812, 64).then_text("Two.", 1210, 140)
    with working(site, bell):
        result = durable("run", "--follow", "Which acme tickets are overdue?")
    assert result.exit_code == 0, result.output
    first, tool, last, end, text = result.stdout.splitlines()
    assert first.startswith("node-a seq=1 MODEL DONE stop=tool_use in=812 out=64 ")
    assert tool.startswith("node-a seq=2 TOOL list_tickets DONE ")
    assert last.startswith("node-a seq=3 MODEL DONE stop=end_turn in=1210 out=140 ")
    assert "SUCCEEDED tokens=2226 cost=$" in end
    assert text == "Two."


def test_followed_run_in_json_is_one_document(durable: Durable, site: Site, bell: Bell) -> None:
    site.model.then_text("Hi.", 1, 1)
    with working(site, bell):
        result = durable("run", "--follow", "-o", "json", "Hello?")
    assert json.loads(result.stdout)["output"] == "Hi."
    assert "seq=1 MODEL DONE" in result.stderr


def test_run_that_fails_is_exit_code_1_with_the_reason(durable: Durable, site: Site, bell: Bell) -> None:
    site.model.then_fail(LlmError("no credit left", transient=False, code="billing_error"))
    with working(site, bell):
        result = durable("run", "--follow", "Hello?")
    assert result.exit_code == 1
    assert "billing_error" in result.stdout
    assert "no credit left" in result.stderr


def test_waiting_for_too_long_is_exit_code_124_and_the_run_goes_on(durable: Durable, site: Site) -> None:
    result = durable("run", "--follow", "--wait-s", "0", "Hello?")
    assert result.exit_code == 124
    assert site.store.list_runs("default")[0].status == "QUEUED"


def test_tail_in_json_is_one_line_per_step_and_one_for_the_run(durable: Durable, site: Site, bell: Bell) -> None:
    site.model.then_tool_use("toolu_1", "list_tickets", {}, 1, 1).then_text("Done.", 1, 1)
    with working(site, bell):
        run_id = site.new_run()
        result = durable("runs", "tail", run_id[:8], "-o", "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("seq") for line in lines] == [1, 2, 3, None]
    assert lines[-1]["status"] == "SUCCEEDED"


def test_list_shows_short_ids_for_people_and_the_body_for_programs(durable: Durable, site: Site) -> None:
    ids = [site.new_run(input=f"Question {number}") for number in range(3)]
    table = durable("runs", "list", "--limit", "2")
    assert [line.split()[0] for line in table.stdout.splitlines()] == ["ID", ids[2][:8], ids[1][:8]]
    assert "Question 2" in table.stdout
    cursor = table.stderr.split("--cursor ")[1].strip()
    rest = json.loads(durable("runs", "list", "--cursor", cursor, "-o", "json").stdout)
    assert [run["id"] for run in rest["items"]] == [ids[0]]
    assert durable("runs", "list", "--status", "FAILED").stdout.splitlines()[1:] == []


def test_show_keeps_numbers_exact_in_json(durable: Durable, site: Site) -> None:
    run_id, claim = started_model(site.store, metadata={"big": BIG})
    site.store.finish_model_step(claim.lease, answer([{"type": "text", "text": "x"}], stop_reason="end_turn"), AGENT)
    assert f'"big":{BIG}' in durable("runs", "show", run_id, "-o", "json").stdout
    shown = durable("runs", "show", run_id[:6]).stdout
    assert "SUCCEEDED" in shown
    assert "seq=1 MODEL DONE" in shown


def test_what_a_terminal_would_obey_is_not_printed(durable: Durable, site: Site) -> None:
    run_id, claim = started_model(site.store, input="\x1b]0;owned\x07 and \x9b2J")
    said = answer([{"type": "text", "text": "line\n\x1b[2Jgone"}], stop_reason="end_turn")
    site.store.finish_model_step(claim.lease, said, AGENT)
    for words in (("runs", "show", run_id), ("runs", "tail", run_id), ("runs", "list")):
        result = durable(*words, FORCE_COLOR="")
        assert result.exit_code == 0
        assert not set(result.stdout) & {"\x1b", "\x07", "\x9b"}


def test_cancel_says_what_became_of_the_run(durable: Durable, site: Site) -> None:
    queued, (started, _) = site.new_run(), started_model(site.store)
    assert durable("runs", "cancel", queued).stdout == f"{queued} CANCELLED\n"
    assert durable("runs", "cancel", started).stdout == f"{started} RUNNING (being stopped)\n"
    assert json.loads(durable("runs", "cancel", queued, "-o", "json").stdout)["stopCode"] == "cancelled"


@pytest.mark.parametrize("command", ["show", "tail", "cancel"])
def test_unknown_run_is_exit_code_3(durable: Durable, command: str) -> None:
    result = durable("runs", command, "00000000")
    assert (result.exit_code, result.stdout) == (3, "")


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("nothing",),
        ("run", "Hi", "--token-budget", "many"),
        ("run", "Hi", "--token-budget", "-1"),  # refused by the API
        ("run", "   "),
        ("runs", "list", "--limit", "1000"),
        ("runs", "list", "--url", "file:///etc/passwd"),
    ],
)
def test_wrong_usage_is_exit_code_2(durable: Durable, words: tuple[str, ...]) -> None:
    result = durable(*words)
    assert (result.exit_code, result.stdout) == (2, "")


def test_server_that_is_not_there_is_exit_code_1_and_says_how_to_start_it() -> None:
    result = CliRunner().invoke(main, ["runs", "list", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "make up" in result.stderr


def test_proxy_of_the_environment_is_not_asked_for_this_machine(durable: Durable) -> None:
    assert durable("runs", "list", http_proxy="http://127.0.0.1:1").exit_code == 0
