import base64
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from app.domain.run import Dispatch
from app.domain.status import StepKind
from tasks.dispatch import REST_S, CeleryDispatcher
from tests.support.services import RedisTestServer

RUN = "6f1c0a52-0000-4000-8000-000000000000"
MODEL = Dispatch(RUN, 1, StepKind.MODEL, "model", 3)
TOOL = Dispatch(RUN, 2, StepKind.TOOL, "tool", 1, tool_name="list_tickets", timeout_s=30.0)
ELSEWHERE = Dispatch(RUN, 3, StepKind.TOOL, "gpu", 1, tool_name="draw", timeout_s=30.0)

AppOn = Callable[[str], Celery]


def _messages(broker: redis.Redis, queue: str) -> list[dict[str, Any]]:
    found: list[Any] = broker.lrange(queue, 0, -1)
    return [json.loads(raw) for raw in reversed(found)]


@contextlib.contextmanager
def _refused() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
    yield url


@contextlib.contextmanager
def _black_hole() -> Iterator[str]:
    """Connections are accepted, and nobody ever answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@contextlib.contextmanager
def _frozen(server: RedisTestServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _takes_s(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_a_message_carries_ids_and_nothing_else(app: Celery, broker: redis.Redis) -> None:
    CeleryDispatcher(app).dispatch([TOOL])
    [message] = _messages(broker, "tool")
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert (args, kwargs) == ([], {"run_id": RUN, "seq": 2})


def test_flower_sees_few_names_and_many_ids(app: Celery, broker: redis.Redis) -> None:
    CeleryDispatcher(app).dispatch([MODEL, TOOL])
    model, tool = (_messages(broker, queue)[0]["headers"] for queue in ("model", "tool"))
    assert (model["task"], model["shadow"], model["id"]) == ("agent.step", "agent.step.model", f"{RUN}:1:3")
    assert (tool["task"], tool["shadow"], tool["id"]) == ("agent.step", "agent.step.tool", f"{RUN}:2:1")
    assert (tool["argsrepr"], tool["kwargsrepr"]) == ("()", "run=6f1c0a52 seq=2 TOOL list_tickets")


def test_a_tool_brings_its_hard_limit_and_no_message_a_due_time(app: Celery, broker: redis.Redis) -> None:
    CeleryDispatcher(app).dispatch([MODEL, TOOL])
    model, tool = (_messages(broker, queue)[0]["headers"] for queue in ("model", "tool"))
    assert (model["timelimit"], tool["timelimit"]) == ([None, None], [35.0, None])
    assert (model["eta"], tool["eta"], model["retries"]) == (None, None, 0)


def test_a_queue_that_nobody_works_does_not_hold_up_the_others(app: Celery, broker: redis.Redis) -> None:
    CeleryDispatcher(app).dispatch([ELSEWHERE, TOOL])
    assert len(_messages(broker, "tool")) == 1
    assert not broker.exists("gpu")


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("dead", [_refused, _black_hole])
def test_a_broker_that_is_away_costs_less_than_3_s(app_on: AppOn, dead: Any, count: int) -> None:
    with dead() as url:
        assert _takes_s(lambda: CeleryDispatcher(app_on(url)).dispatch([MODEL] * count)) < 3


def test_nobody_knows_what_a_broker_holds_that_is_away(app_on: AppOn) -> None:
    with _refused() as url:
        dispatcher = CeleryDispatcher(app_on(url))
        assert not dispatcher.is_reachable()
        assert not dispatcher.is_empty("model")


def test_a_broker_that_freezes_costs_less_than_3_s(
    app: Celery, broker: redis.Redis, redis_server: RedisTestServer
) -> None:
    dispatcher = CeleryDispatcher(app)
    dispatcher.dispatch([MODEL])
    with _frozen(redis_server):
        assert _takes_s(lambda: dispatcher.dispatch([MODEL] * 20)) < 3
        assert _takes_s(lambda: CeleryDispatcher(app).is_empty("tool")) < 3


def test_a_broker_that_failed_is_left_alone_for_a_moment_and_then_used_again(
    app: Celery, broker: redis.Redis, redis_server: RedisTestServer
) -> None:
    now = [100.0]
    dispatcher = CeleryDispatcher(app, clock=lambda: now[0])
    with _frozen(redis_server):
        dispatcher.dispatch([MODEL])
    broker.flushall()
    dispatcher.dispatch([TOOL])
    assert not dispatcher.is_empty("tool")
    assert not broker.exists("tool")
    now[0] += REST_S
    assert dispatcher.is_empty("tool")
    dispatcher.dispatch([TOOL])
    assert len(_messages(broker, "tool")) == 1


def test_a_full_broker_is_a_broker_that_is_away(app: Celery, broker: redis.Redis) -> None:
    broker.config_set("maxmemory", "1")
    try:
        CeleryDispatcher(app).dispatch([MODEL])
    finally:
        broker.config_set("maxmemory", "0")
    assert not broker.exists("model")


def test_a_queue_is_empty_when_its_last_message_was_taken(app: Celery, broker: redis.Redis) -> None:
    dispatcher = CeleryDispatcher(app)
    assert dispatcher.is_empty("model")
    dispatcher.dispatch([MODEL])
    assert not dispatcher.is_empty("model")
    broker.lpop("model")
    assert dispatcher.is_empty("model")


def test_asking_whether_a_queue_is_empty_opens_no_connection_each_time(app: Celery, broker: redis.Redis) -> None:
    dispatcher = CeleryDispatcher(app)
    dispatcher.is_empty("model")
    before = broker.info("stats")["total_connections_received"]
    for _ in range(10):
        dispatcher.is_empty("model")
    assert broker.info("stats")["total_connections_received"] == before
