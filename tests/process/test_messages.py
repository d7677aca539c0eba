"""Messages are wake-ups without authority: doubled, stale, wrong and missing ones change nothing."""

import uuid

import pytest
import redis

from app.domain.run import Dispatch
from app.domain.status import StepKind, StepStatus
from tests.support.stack import MakeStack, Stack, calls, says, wait_for

SLOTS = 4


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    stack = make_stack(lease_s=20.0)
    stack.start_node("worker-A", slots=SLOTS)
    stack.start_sweeping()
    stack.ready()
    return stack


def _wake(run_id: str, seq: int = 1, number: int = 1) -> Dispatch:
    return Dispatch(run_id, seq, StepKind.MODEL, "model", number)


def _read_off(stack: Stack) -> None:
    """Until the workers have taken every message that was sent so far."""
    stack.succeeded(stack.submit(calls(("slow_note", {"n": 0, "seconds": 0})), says()))


def test_fifty_wake_ups_for_one_step_make_one_model_call(stack: Stack) -> None:
    run_id = stack.submit(says(latency_s=0.5))
    stack.dispatcher.dispatch([_wake(run_id, number=number) for number in range(2, 52)])
    stack.succeeded(run_id)
    _read_off(stack)
    [step] = stack.store.timeline(run_id)
    assert (step.attempt, stack.model_calls(run_id)) == (1, 1)


def test_wake_ups_for_what_is_over_or_never_was_are_dropped(stack: Stack) -> None:
    run_id = stack.submit(calls(("slow_note", {"n": 1, "seconds": 0})), says())
    stack.succeeded(run_id)
    before = stack.store.timeline(run_id)
    stack.dispatcher.dispatch([*(_wake(run_id, seq, 9) for seq in (1, 2, 3, 4)), _wake(str(uuid.uuid4()))])
    _read_off(stack)
    assert stack.store.timeline(run_id) == before
    assert stack.model_calls(run_id) == 2


def test_messages_that_name_no_step_and_messages_that_are_code_are_dropped(stack: Stack) -> None:
    send = stack.celery.send_task
    for queue in ("model", "tool"):
        send("agent.step", kwargs={"run_id": "no uuid", "seq": 1}, queue=queue)
        send("agent.step", kwargs={"run_id": str(uuid.uuid4()), "seq": "x", "extra": 1}, queue=queue)
        send("agent.step", args=["one", "two", "three"], queue=queue)
        send("agent.step", kwargs={"run_id": "x"}, queue=queue, serializer="pickle")
        send("agent.later", queue=queue)
    _read_off(stack)
    assert all(worker.is_up() for worker in stack.workers)


def test_a_busy_worker_takes_no_message_that_another_could_take(stack: Stack) -> None:
    run_ids = [stack.submit(says(latency_s=1)) for _ in range(2 * SLOTS)]
    wait_for("all slots to be busy", lambda: sum(stack.model_calls(run_id) for run_id in run_ids) == SLOTS)
    with redis.Redis.from_url(stack.redis_url) as broker:
        assert (broker.llen("model"), broker.hlen("unacked")) == (SLOTS, 0)
    stack.succeeded(*run_ids)


def test_a_long_wait_is_kept_in_the_database_and_not_in_a_message(stack: Stack) -> None:
    slow_down = {"status": 429, "headers": {"retry-after": "3"}, "error": {"type": "rate_limit_error", "message": "!"}}
    run_id = stack.submit(slow_down, says())

    def postponed() -> bool:
        step = stack.step(run_id, 1)
        return step is not None and (step.status, step.attempt) == (StepStatus.READY, 1)

    wait_for("the step to be postponed", postponed)
    with redis.Redis.from_url(stack.redis_url) as broker:
        assert (broker.llen("model"), broker.hlen("unacked")) == (0, 0)
    stack.succeeded(run_id)
    [step] = stack.store.timeline(run_id)
    assert (step.attempt, step.tries, step.crashes) == (2, 2, 0)
    assert step.started_at is not None
    first, second = stack.fake.requests(stack.keys[run_id])
    assert second.at - first.at >= 3
