"""What becomes of a run when a whole worker machine is killed, or stops for longer than its lease."""

import time

import pytest

from app.domain.status import StepStatus
from tests.support.processes import is_running
from tests.support.stack import MakeStack, Stack, Worker, calls, says, wait_for

LEASE_S = 5.0


@pytest.fixture(scope="module")
def shared(make_stack: MakeStack) -> Stack:
    stack = make_stack(lease_s=LEASE_S)
    stack.start_sweeping()
    return stack


@pytest.fixture
def stack(shared: Stack) -> Stack:
    """With both nodes up, whatever the test before did to them."""
    for node in ("worker-A", "worker-B"):
        for role in ("model", "tool"):
            if not any(worker.name == f"{role}@{node}" and worker.is_up() for worker in shared.workers):
                shared.start(node, role)
    shared.ready()
    return shared


def _node_of(stack: Stack, run_id: str, seq: int) -> tuple[str, list[Worker]]:
    """The node that performs this step, and its processes."""
    node = (stack.started(run_id, seq).owner or "").split(".")[0]
    return node, [worker for worker in stack.workers if worker.name.endswith(f"@{node}") and worker.is_up()]


def _other(node: str) -> str:
    return "worker-B" if node == "worker-A" else "worker-A"


def test_another_node_finishes_what_a_killed_node_had_begun(stack: Stack) -> None:
    run_id = stack.submit(calls(("slow_note", {"n": 1, "seconds": 1.5})), says())
    wait_for("the tool to begin", lambda: stack.effects(run_id))
    node, workers = _node_of(stack, run_id, 2)
    children = [pid for worker in workers for pid in worker.children()]
    assert children
    killed_at = time.monotonic()
    for worker in workers:
        worker.kill()
    wait_for("the children to die with their parent", lambda: not any(is_running(pid) for pid in children))
    stack.succeeded(run_id)
    assert time.monotonic() - killed_at < LEASE_S + 5
    step = stack.step(run_id, 2)
    assert step is not None
    assert (step.status, step.attempt, step.crashes) == (StepStatus.DONE, 2, 1)
    assert (step.owner or "").startswith(_other(node))
    assert stack.model_calls(run_id) == 2
    lines = [line.split() for line in stack.effects(run_id)]
    assert [line[0] for line in lines] == ["start", "start", "end"]
    assert {line[3] for line in lines} == {f"{run_id}:2"}


def test_a_model_call_of_a_killed_node_is_made_once_more(stack: Stack) -> None:
    run_id = stack.submit(says(latency_s=3), says("again"))
    stack.asked(run_id)
    node, workers = _node_of(stack, run_id, 1)
    for worker in workers:
        worker.kill()
    stack.succeeded(run_id, within_s=LEASE_S + 8)
    step = stack.step(run_id, 1)
    assert step is not None
    assert (step.attempt, step.crashes) == (2, 1)
    assert (step.owner or "").startswith(_other(node))
    assert stack.model_calls(run_id) == 2


def test_the_late_answer_of_a_frozen_worker_is_dropped_and_counts_once(stack: Stack) -> None:
    run_id = stack.submit(says("late", latency_s=2), says("in time"))
    stack.asked(run_id)
    _, workers = _node_of(stack, run_id, 1)
    frozen = next(worker for worker in workers if worker.name.startswith("model"))
    frozen.freeze()
    stack.succeeded(run_id)
    before = stack.run(run_id)
    frozen.thaw()
    wait_for("the late answer", lambda: "its result is dropped" in frozen.text())
    after = stack.run(run_id)
    [step] = stack.store.timeline(run_id)
    assert after == before
    assert "in time" in (after.output or "")
    assert after.tokens_used == step.usage.prompt_tokens + step.usage.output_tokens
    assert stack.model_calls(run_id) == 2
