"""Redis is emptied, cut off, frozen and killed; nothing is lost, and no paid call is made twice."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
import redis

from app.api.app import create_app
from app.bootstrap import build_runtime
from app.config import Settings
from tests.support.services import RedisTestServer
from tests.support.stack import MakeStack, Stack, calls, says

SLOTS = 4


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, own_redis: RedisTestServer) -> Stack:
    stack = make_stack(redis_server=own_redis, lease_s=20.0)
    stack.start_node("worker-A", slots=SLOTS)
    stack.start_sweeping()
    stack.ready()
    return stack


@pytest.fixture
def broker(stack: Stack, own_redis: RedisTestServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_redis.url) as client:
        yield client


@pytest.fixture(autouse=True)
def no_worker_ended(stack: Stack) -> Iterator[None]:
    """Whatever happens to Redis, the same processes are there afterwards."""
    yield
    assert [worker.name for worker in stack.workers if not worker.is_up()] == []


def _post(stack: Stack) -> str:
    """POST a run, as a web backend would; it must be answered within 3 s."""
    settings = Settings(database_url=stack.database_url, redis_url=stack.redis_url, tools=stack.tools)
    runtime = build_runtime(settings, stack.dispatcher)
    key = f"posted-{time.monotonic_ns()}"
    stack.fake.script(key, [calls(("slow_note", {"n": 1, "seconds": 0})), says()])
    body = {"input": f"hello [script:{key}]", "tokenBudget": 100_000, "timeoutSeconds": 120}
    began = time.monotonic()
    answer = create_app(runtime, settings).test_client().post("/api/runs", json=body)
    assert time.monotonic() - began < 3
    assert answer.status_code == 202, answer.text
    runtime.store.close()
    run_id = str(answer.get_json()["id"])
    stack.keys[run_id] = key
    return run_id


def _only_once(stack: Stack, run_ids: list[str], *, each: int = 1) -> None:
    stack.succeeded(*run_ids)
    assert [stack.model_calls(run_id) for run_id in run_ids] == [each] * len(run_ids)


def test_runs_whose_messages_were_flushed_finish(stack: Stack, broker: redis.Redis) -> None:
    run_ids = [stack.submit(says(latency_s=0.5)) for _ in range(30)]
    stack.asked(*run_ids[:SLOTS])
    assert broker.llen("model")
    broker.flushall()
    _only_once(stack, run_ids)


def test_a_post_without_redis_is_accepted_and_its_run_finishes_once_redis_is_back(
    stack: Stack, own_redis: RedisTestServer
) -> None:
    own_redis.kill()
    try:
        run_id = _post(stack)
    finally:
        own_redis.start()
    _only_once(stack, [run_id], each=2)


def test_a_post_while_redis_hangs_is_accepted_and_its_run_finishes_once_redis_goes_on(
    stack: Stack, own_redis: RedisTestServer
) -> None:
    os.kill(own_redis.pid, signal.SIGSTOP)
    try:
        run_id = _post(stack)
    finally:
        os.kill(own_redis.pid, signal.SIGCONT)
    _only_once(stack, [run_id], each=2)


@pytest.mark.parametrize("running", [SLOTS // 2, SLOTS])
def test_calls_under_way_survive_a_redis_that_comes_back_empty(
    stack: Stack, own_redis: RedisTestServer, broker: redis.Redis, running: int
) -> None:
    run_ids = [stack.submit(says(latency_s=3)) for _ in range(running)]
    stack.asked(*run_ids)
    waiting = [stack.submit(says()) for _ in range(3)]
    broker.flushall()
    own_redis.kill()
    own_redis.start()
    _only_once(stack, [*run_ids, *waiting])


def test_calls_under_way_are_not_repeated_when_every_connection_is_cut(stack: Stack, broker: redis.Redis) -> None:
    run_ids = [stack.submit(says(latency_s=2)) for _ in range(SLOTS)]
    stack.asked(*run_ids)
    broker.client_kill_filter(_type="normal", skipme=True)
    _only_once(stack, run_ids)


def test_calls_under_way_are_written_down_while_redis_is_away(stack: Stack, own_redis: RedisTestServer) -> None:
    run_id = stack.submit(says(latency_s=1))
    stack.asked(run_id)
    own_redis.kill()
    try:
        _only_once(stack, [run_id])
    finally:
        own_redis.start()
    stack.succeeded(stack.submit(says()))
