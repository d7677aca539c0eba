"""While a model thinks, no database connection is in use but the keeper's."""

import psycopg
import pytest

from tests.support.stack import MakeStack, Stack, says, wait_for

CALLS = 10


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    # One connection besides the keeper's: calls that held one could not be under way together.
    stack = make_stack(lease_s=3.0, settings={"DB_POOL_SIZE": "1"})
    stack.start("worker-A", "model", slots=CALLS)
    stack.ready()
    return stack


_OTHERS = """
    SELECT pid, state <> 'idle', clock_timestamp() > to_timestamp(%s) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


def test_ten_model_calls_are_under_way_over_one_idle_connection(stack: Stack) -> None:
    run_ids = [stack.submit(says(latency_s=4)) for _ in range(CALLS)]
    stack.asked(*run_ids)
    stack.store.close()  # ours would be counted too
    calls = [stack.fake.requests(stack.keys[run_id])[0] for run_id in run_ids]
    assert not any(call.finished for call in calls)
    nearly_over = min(call.at for call in calls) + 3.5
    seen: set[int] = set()
    busy: set[int] = set()
    with psycopg.connect(stack.database_url.replace("+psycopg", "", 1), autocommit=True) as connection:

        def look() -> bool:
            rows = connection.execute(_OTHERS, [nearly_over]).fetchall()
            seen.update(pid for pid, _, _ in rows)
            busy.update(pid for pid, is_busy, _ in rows if is_busy)
            return any(over for _, _, over in rows)

        wait_for("the calls to be nearly over", look)
    assert len(seen) == 2  # the pool's one and the keeper's, which renewed meanwhile
    assert len(busy) <= 1
    stack.succeeded(*run_ids)
    assert [stack.model_calls(run_id) for run_id in run_ids] == [1] * CALLS
