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


def test_an_answer_that_comes_while_the_database_is_away_is_kept_and_not_asked_for_again(
    stack: Stack, own_postgres: PostgresServer
) -> None:
    run_id = stack.submit(says(latency_s=1))
    stack.asked(run_id)
    # The claim of a model step does not wait for the disk: lost with the crash, it would cost this very call.
    with stack.store.engine.begin() as connection:
        connection.exec_driver_sql("CHECKPOINT")
    own_postgres.crash()
    key = stack.keys[run_id]
    wait_for("the answer", lambda: stack.fake.requests(key)[0].finished)
    worker = next(worker for worker in stack.workers if worker.name.startswith("model"))
    wait_for(
        "the worker to miss the database", lambda: f"run={run_id[:8]} seq=1 waits for the database" in worker.text()
    )
    own_postgres.start()
    stack.store.close()
    stack.succeeded(run_id)
    assert stack.model_calls(run_id) == 1
