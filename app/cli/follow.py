"""Waiting for a run by asking again and again, and telling of each step as it finishes."""

import time
from collections.abc import Callable
from typing import Any

from app.cli.api_client import Answer, ApiClient
from app.cli.failure import Away, TimedOut
from app.cli.output import note
from app.domain.status import FINAL_STEP_STATUSES, TERMINAL_RUN_STATUSES

POLL_S = 0.5
#: How long a server may stay away in between.
PATIENCE_S = 60.0

Step = dict[str, Any]


def follow(api: ApiClient, run_id: str, tell: Callable[[Step], None], *, wait_s: float | None = None) -> Answer:
    """Wait for the end of a run; returns it as the API shows it.

    Args:
        tell: called once with each finished step, in the order in which they are seen to finish.
        wait_s: how long to wait, in seconds; None: as long as it takes.

    Raises:
        Failure: the wait is over (exit code 124), the run is unknown, or the server stays away.
    """
    told: set[int] = set()
    give_up = None if wait_s is None else time.monotonic() + wait_s
    while True:
        # The run first: of a finished run the timeline that is read afterwards is whole.
        run = _ask(api, run_id)
        run_id = run.data["id"]  # a prefix that is unique now may soon fit two runs
        for step in _ask(api, run_id, "timeline").data:
            if step["status"] in FINAL_STEP_STATUSES and step["seq"] not in told:
                told.add(step["seq"])
                tell(step)
        if run.data["status"] in TERMINAL_RUN_STATUSES:
            return run
        if give_up is not None and time.monotonic() >= give_up:
            raise TimedOut(f"run {run_id} is still {run.data['status']}; it goes on without us")
        time.sleep(POLL_S)


def _ask(api: ApiClient, *path: str) -> Answer:
    return patiently(lambda: api.get("api", "runs", *path))


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask until there is an answer: a server that restarts is no reason to stop waiting for a run."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except Away as error:
            if time.monotonic() >= give_up:
                raise
            note(f"{error.message}; trying again")
            time.sleep(2 * POLL_S)


def step_line(step: Step) -> str:
    """A step in one line: `worker-A seq=1 MODEL DONE stop=tool_use in=812 out=64 1830ms`."""
    words = [step["node"] or "-", f"seq={step['seq']}", step["kind"], step["toolName"], step["status"]]
    if step["kind"] == "MODEL":
        usage = step["usage"]
        prompt = usage["inputTokens"] + usage["cacheWriteTokens"] + usage["cacheReadTokens"]
        words += [f"stop={step['stopReason']}", f"in={prompt}", f"out={usage['outputTokens']}"]
    if step["attempt"] > 1:
        words.append(f"attempt={step['attempt']}")
    if step["latencyMs"] is not None:
        words.append(f"{step['latencyMs']}ms")
    return " ".join(word for word in [*words, step["errorCode"]] if word)


def end_line(run: dict[str, Any]) -> str:
    """How a run ended, in one line."""
    cost = "unknown" if run["costUsd"] is None else f"${run['costUsd']}"
    words = [f"run={run['id'][:8]}", run["status"], run["errorCode"], f"tokens={run['tokensUsed']}", f"cost={cost}"]
    return " ".join(word for word in words if word)
