"""SIGTERM: a worker finishes the paid call that it has begun, and then ends."""

import pytest

from app.domain.status import StepStatus
from tests.support.services import RedisTestServer
from tests.support.stack import MakeStack, Stack, calls, says, wait_for


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, own_redis: RedisTestServer) -> Stack:
    return make_stack(redis_server=own_redis, lease_s=20.0)


def _stops_well(stack: Stack, own_redis: RedisTestServer, *, redis_is_up: bool) -> None:
    worker = stack.start("worker-A", "model")
    stack.ready()
    run_id = stack.submit(says(latency_s=2))
    stack.asked(run_id)
    if not redis_is_up:
        own_redis.kill()
    try:
        assert worker.stop(within_s=15) == 0, worker.text()
    finally:
        if not redis_is_up:
            own_redis.start()
    [step] = stack.store.timeline(run_id)
    assert (step.status, step.attempt, step.crashes) == (StepStatus.DONE, 1, 0)
    assert stack.model_calls(run_id) == 1


def test_a_call_under_way_is_finished_and_written_down(stack: Stack, own_redis: RedisTestServer) -> None:
    _stops_well(stack, own_redis, redis_is_up=True)


def test_a_call_under_way_is_finished_and_written_down_without_redis(stack: Stack, own_redis: RedisTestServer) -> None:
    _stops_well(stack, own_redis, redis_is_up=False)


def test_a_tool_under_way_is_finished_and_written_down(stack: Stack) -> None:
    model, tool = stack.start_node("worker-B")
    stack.ready()
    run_id = stack.submit(calls(("slow_note", {"n": 1, "seconds": 1.5})), says())
    wait_for("the tool to begin", lambda: stack.effects(run_id))
    assert tool.stop(within_s=15) == 0, tool.text()
    step = stack.step(run_id, 2)
    assert step is not None
    assert (step.status, step.attempt, step.crashes) == (StepStatus.DONE, 1, 0)
    assert model.stop() == 0
