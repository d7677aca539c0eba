"""Postgres goes away in mid-run and comes back; nobody else is restarted."""

import pytest

from tests.support.services import PostgresServer
from tests.support.stack import MakeStack, Stack, calls, says, wait_for


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack, own_postgres: PostgresServer) -> Stack:
    stack = make_stack(postgres=own_postgres, lease_s=5.0)
    stack.start_node("worker-A")
    stack.start_sweeping()
    stack.ready()
    return stack


def test_runs_finish_after_a_crash_of_the_database(stack: Stack, own_postgres: PostgresServer) -> None:
    thinking = stack.submit(says(latency_s=2), says())
    working = stack.submit(calls(("slow_note", {"n": 1, "seconds": 2})), says())
    stack.asked(thinking)
    wait_for("the tool to begin", lambda: stack.effects(working))
    own_postgres.crash()
    own_postgres.start()
    stack.store.close()
    stack.succeeded(thinking, working)
    assert [worker.name for worker in stack.workers if not worker.is_up()] == []
