"""`durable demo-kill`: kill -9 a worker node in the middle of a tool call, and watch another node finish the run.

Rules: it kills nothing but the processes that a running `up` names as that node's, and gives the node back at the end.
"""

import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import click

from app.cli.api_client import ApiClient
from app.cli.failure import Failure, TimedOut
from app.cli.follow import POLL_S, Step, end_line, follow, patiently, step_line
from app.cli.output import say
from app.cli.up.state_dir import UpState, hold_file, read_up_state
from app.config import settings

START_WAIT_S = 60.0
END_WAIT_S = 240.0


@click.command("demo-kill")
@click.option("--state-dir", type=click.Path(path_type=Path), help="Folder of the running `up`; else STATE_DIR says.")
def demo_kill(state_dir: Path | None) -> None:
    """Post a run with a slow tool, kill -9 the node that works on it, and show the other finish it."""
    folder = state_dir or settings().state_dir
    state = _running(folder)
    api = ApiClient(state.api_url)
    mark = f"demo {secrets.token_hex(4)}"
    body = {
        "input": f"Please make the slow report for acme tickets ({mark})",
        "tokenBudget": 50_000,
        "timeoutSeconds": 300,
    }
    run_id = api.post("api", "runs", body=body).data["id"]
    say(f"run={run_id[:8]} posted to {state.api_url}")
    step = _started_tool(api, run_id)
    killed = step["node"]
    say(f"{killed} seq={step['seq']} TOOL {step['toolName']} started, attempt {step['attempt']}")
    hold = hold_file(folder, killed)
    try:
        # Before the kill: the node must not be back before the other one has shown what it can.
        hold.touch()
        _kill(_running(folder), killed)
        say("its lease lapses now; nobody waits for it …")
        run = follow(api, run_id, lambda done: say(step_line(done)), wait_s=END_WAIT_S).data
    finally:
        hold.unlink(missing_ok=True)
    say(end_line(run))
    timeline = api.get("api", "runs", run_id, "timeline").data
    faults = [*_faults(run, timeline, step["seq"], killed), *_call_faults(state, mark)]
    _conclude(timeline, faults)


def _running(folder: Path) -> UpState:
    state = read_up_state(folder)
    if state is None:
        raise Failure(f"no `durable up` runs over {folder}: start it with `make up`, in another terminal")
    return state


def _started_tool(api: ApiClient, run_id: str) -> Step:
    give_up = time.monotonic() + START_WAIT_S
    while time.monotonic() < give_up:
        steps = patiently(lambda: api.get("api", "runs", run_id, "timeline")).data
        for step in steps:
            if step["kind"] == "TOOL" and step["status"] == "STARTED":
                found: Step = step
                return found
        time.sleep(POLL_S / 2)
    raise TimedOut(f"no tool was started within {START_WAIT_S:.0f} s: see the log of `up`")


def _kill(state: UpState, node: str) -> None:
    doomed = [process for process in state.processes if process.node == node]
    if not doomed:
        raise Failure(f"`up` has no process of node {node}")
    for process in doomed:
        # Each leads a process group of its own number: this takes its pool with it, as pulling the plug would.
        os.killpg(process.pid, signal.SIGKILL)
        say(f"{node} killed with kill -9: {process.role} process, pid {process.pid}")


def _faults(run: dict[str, Any], timeline: list[Step], seq: int, killed: str) -> list[str]:
    """What did not go as promised."""
    tool = timeline[seq - 1]
    others = [step for step in timeline if step["seq"] != seq]
    checks = {
        f"the run ended {run['status']}": run["status"] == "SUCCEEDED",
        f"step {seq} was attempted {tool['attempt']} times, not twice": tool["attempt"] == 2,
        f"step {seq} was finished by {tool['node']}, the node that was killed": tool["node"] != killed,
        "another step was repeated too": all(step["attempt"] == 1 for step in others),
    }
    return [sentence for sentence, holds in checks.items() if not holds]


def _call_faults(state: UpState, mark: str) -> list[str]:
    """Whether the model was called twice in all, by the count of the local Messages API; nothing to say without it."""
    if not any(process.role == "fake-anthropic" for process in state.processes):
        return []
    asked = ApiClient(state.anthropic_url).get("_fake", "requests").data["requests"]
    calls = sum(mark in request["body"] for request in asked)
    say(f"the model was called {calls} times")
    return [] if calls == 2 else [f"the model was called {calls} times, not twice"]


def _conclude(timeline: list[Step], faults: list[str]) -> None:
    say("timeline:")
    for step in timeline:
        say(f"  {step_line(step)}")
    if faults:
        raise Failure("; ".join(faults))
    say("no step was lost, and none but the interrupted one was done twice")
