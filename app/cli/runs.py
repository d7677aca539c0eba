"""`durable run` and `durable runs`: start runs and look at them, through the API."""

import json
from typing import Any

import click

from app.cli.api_client import Answer, ApiClient
from app.cli.failure import Failure
from app.cli.follow import Step, end_line, follow, step_line
from app.cli.output import note, one_line, output_option, say, say_json, say_table, url_option
from app.domain.status import ShownStatus

wait_option = click.option(
    "--wait-s", type=click.FloatRange(min=0), help="Give up following after this time (exit 124)."
)

_SHOWN = ("status", "model", "steps", "tokensUsed", "costUsd", "createdAt")


@click.command()
@click.argument("text")
@click.option("--follow", "follows", is_flag=True, help="Print the steps as they finish, then the answer.")
@click.option("--token-budget", type=int, default=50_000, show_default=True, help="Tokens that the run may use.")
@click.option("--timeout-s", type=int, default=300, show_default=True, help="Seconds to the deadline.")
@click.option("--model", help="Another model than the server's.")
@click.option("--max-steps", type=int, help="Another step cap than the server's.")
@wait_option
@url_option
@output_option
def run(text: str, *, follows: bool, wait_s: float | None, url: str, form: str, **limits: Any) -> None:
    """Start a run that is given TEXT, and print its id.

    With --follow the exit code is 0 when it succeeded, 1 when it did not.
    """
    body = {
        "input": text,
        "tokenBudget": limits["token_budget"],
        "timeoutSeconds": limits["timeout_s"],
        "model": limits["model"],
        "maxSteps": limits["max_steps"],
    }
    api = ApiClient(url)
    started = api.post("api", "runs", body={name: value for name, value in body.items() if value is not None})
    run_id = started.data["id"]
    if follows:
        note(f"run {run_id}")
        _tell_all(api, run_id, wait_s=wait_s, form=form)
    elif form == "json":
        say_json(started.text)
    else:
        say(run_id)
        note(f"durable runs tail {run_id[:8]}")


@click.group()
def runs() -> None:
    """List, show, follow and cancel runs. RUN_ID may be the beginning of an id."""


@runs.command("list")
@click.option("--status", type=click.Choice([status.value for status in ShownStatus]), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@click.option("--cursor", help="Go on where a list ended.")
@url_option
@output_option
def list_runs(status: str | None, limit: int, *, cursor: str | None, url: str, form: str) -> None:
    """The newest runs first."""
    page = ApiClient(url).get("api", "runs", status=status, limit=limit, cursor=cursor)
    if form == "json":
        say_json(page.text)
        return
    headings = ("ID", "STATUS", "MODEL", "STEPS", "TOKENS", "USD", "CREATED", "INPUT")
    say_table(
        headings,
        ([run["id"][:8], *(run[name] for name in _SHOWN), _excerpt(run["input"])] for run in page.data["items"]),
    )
    if page.data["nextCursor"]:
        note(f"there are more: --cursor {page.data['nextCursor']}")


@runs.command()
@click.argument("run_id")
@url_option
@output_option
def show(run_id: str, *, url: str, form: str) -> None:
    """One run, with its steps."""
    api = ApiClient(url)
    found = api.get("api", "runs", run_id)
    if form == "json":
        say_json(found.text)
        return
    for name, value in found.data.items():
        if name not in ("input", "output") and value not in (None, {}):
            say(f"{name + ':':<16}{value if isinstance(value, str | int) else json.dumps(value)}")
    say(f"{'input:':<16}{_excerpt(found.data['input'])}")
    for step in api.get("api", "runs", found.data["id"], "timeline").data:
        say(f"  {step_line(step)}")
    if found.data["output"]:
        say(found.data["output"])


@runs.command()
@click.argument("run_id")
@wait_option
@url_option
@output_option
def tail(run_id: str, *, wait_s: float | None, url: str, form: str) -> None:
    """Follow a run to its end. With -o json: one line for each step, then one for the run."""
    _tell_all(ApiClient(url), run_id, wait_s=wait_s, form=form, each_as_json=True)


@runs.command()
@click.argument("run_id")
@url_option
@output_option
def cancel(run_id: str, *, url: str, form: str) -> None:
    """Stop a run. One that is over stays as it is."""
    answer = ApiClient(url).post("api", "runs", run_id, "cancel")
    if form == "json":
        say_json(answer.text)
        return
    stopping = answer.data["status"] in (ShownStatus.RUNNING, ShownStatus.WAITING, ShownStatus.QUEUED)
    say(f"{answer.data['id']} {answer.data['status']}{' (being stopped)' if stopping else ''}")


def _tell_all(api: ApiClient, run_id: str, *, wait_s: float | None, form: str, each_as_json: bool = False) -> None:
    """Follow to the end; a run that did not succeed is exit code 1."""

    def tell(step: Step) -> None:
        if form == "table":
            say(step_line(step))
        elif each_as_json:
            say_json(json.dumps(step))
        else:
            note(step_line(step))

    _tell_end(follow(api, run_id, tell, wait_s=wait_s), form)


def _tell_end(run: Answer, form: str) -> None:
    if form == "json":
        say_json(run.text)
    else:
        say(end_line(run.data))
        if run.data["output"]:
            say(run.data["output"])
    if run.data["status"] != ShownStatus.SUCCEEDED:
        raise Failure(run.data["errorMessage"] or f"the run ended {run.data['status']}")


def _excerpt(run_input: Any) -> str:
    if isinstance(run_input, str):
        return one_line(run_input, 60)
    return one_line(" ".join(str(block.get("text", block["type"])) for block in run_input), 60)
