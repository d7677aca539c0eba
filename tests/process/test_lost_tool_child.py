"""What becomes of a run when the process of one of its tools ends, or does not end."""

import os
import signal

import pytest

from app.domain.status import ShownStatus, StepStatus
from tests.support.processes import is_running
from tests.support.stack import MakeStack, Stack, calls, says, wait_for

# Much longer than any test here: whatever recovers, recovers without waiting for a lease.
LEASE_S = 60.0


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    stack = make_stack(lease_s=LEASE_S, settings={"MAX_CRASHES": "3"})
    stack.start_node("worker-A")
    stack.start_sweeping()
    stack.ready()
    return stack


def _note(seconds: float, n: int = 1) -> tuple[str, dict[str, object]]:
    return "slow_note", {"n": n, "seconds": seconds}


def test_a_tool_whose_process_is_killed_runs_again_at_once_under_the_same_key(stack: Stack) -> None:
    run_id = stack.submit(calls(_note(2)), says())
    wait_for("the tool to begin", lambda: stack.effects(run_id))
    owner = stack.started(run_id, 2).owner or ""
    os.kill(int(owner.split("/")[1]), signal.SIGKILL)
    stack.succeeded(run_id, within_s=LEASE_S / 3)
    step = stack.step(run_id, 2)
    assert step is not None
    assert (step.status, step.attempt, step.crashes) == (StepStatus.DONE, 2, 1)
    assert stack.model_calls(run_id) == 2
    lines = [line.split() for line in stack.effects(run_id)]
    assert [line[0] for line in lines] == ["start", "start", "end"]
    assert {line[3] for line in lines} == {f"{run_id}:2"}
    assert len({line[4] for line in lines}) == 2  # two processes


def test_the_tools_of_a_turn_run_at_the_same_time(stack: Stack) -> None:
    run_id = stack.submit(calls(_note(2, 1), _note(2, 2), _note(2, 3)), says())
    stack.succeeded(run_id)
    lines = [line.split() for line in stack.effects(run_id)]
    starts = [float(line[5]) for line in lines if line[0] == "start"]
    ends = [float(line[5]) for line in lines if line[0] == "end"]
    assert (len(starts), len(ends)) == (3, 3)
    assert max(starts) < min(ends)
    model, *_, last = stack.store.timeline(run_id)
    assert model.finished_at is not None
    assert last.started_at is not None
    assert (last.started_at - model.finished_at).total_seconds() < 4


def test_a_tool_that_never_returns_is_ended_and_the_pool_goes_on(stack: Stack) -> None:
    in_doubt = stack.submit(calls(("unsafe_never_returns", {})), says())
    run_id = stack.submit(calls(("never_returns", {})), says())
    pid = int((stack.started(run_id, 2).owner or "").split("/")[1])
    stack.succeeded(run_id)
    step = stack.step(run_id, 2)
    assert step is not None
    assert (step.error_code, step.attempt) == ("timed_out", 1)
    assert "timed out" in (step.result or "")
    wait_for("the end of its process", lambda: not is_running(pid))
    wait_for("the question", lambda: stack.step(in_doubt, 2).status is StepStatus.WAITING)  # type: ignore[union-attr]
    alive = len(stack.effects())
    stack.succeeded(stack.submit(calls(_note(0.3, 1), _note(0.3, 2), _note(0.3, 3)), says()))
    assert len(stack.effects()) == alive + 6


def test_a_tool_that_kills_its_process_each_time_ends_its_own_run_only(stack: Stack) -> None:
    poison = stack.submit(calls(("aborts", {})), says())
    others = [stack.submit(calls(_note(0.1)), says()) for _ in range(4)]
    stack.succeeded(*others)
    run = stack.finished(poison)
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "crash_loop")
    step = stack.step(poison, 2)
    assert step is not None
    assert (step.crashes, step.attempt) == (3, 3)


def test_a_tool_that_raises_what_is_no_exception_is_taken_back_without_waiting_for_the_lease(stack: Stack) -> None:
    run = stack.finished(stack.submit(calls(("raises_oddly", {})), says()), within_s=LEASE_S / 3)
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "crash_loop")
    assert run.error_message == "step 2 ended its worker 3 times"


def test_a_tool_that_wants_to_exit_tells_the_model_so(stack: Stack) -> None:
    run_id = stack.submit(calls(("exits", {})), says())
    stack.succeeded(run_id)
    step = stack.step(run_id, 2)
    assert step is not None
    assert (step.is_error, step.attempt, step.crashes) == (True, 1, 0)


def test_the_log_says_a_lost_process_in_a_line_and_not_in_tracebacks(stack: Stack) -> None:
    run_id = stack.submit(calls(_note(0.5)), says())
    wait_for("the tool to begin", lambda: stack.effects(run_id))
    os.kill(int((stack.started(run_id, 2).owner or "").split("/")[1]), signal.SIGKILL)
    stack.succeeded(run_id)
    text = next(worker for worker in stack.workers if worker.name.startswith("tool")).text()
    assert f"run={run_id[:8]} seq=2 taken back: its process was lost" in text
    assert "WorkerLostError" not in text
