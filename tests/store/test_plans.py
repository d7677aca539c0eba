"""Statements stay cheap however many runs there are: each finds its rows through an index, bounded on both columns."""

from collections.abc import Iterator

import pytest

from app.domain.status import ShownStatus
from app.store.dialect import open_engine
from app.store.store import Store
from tests.support.builders import claimed, fresh_owner, new_run, returned, started_tool
from tests.support.plans import index_conditions, plans_of, scanned
from tests.support.services import PostgresServer

RUNS = 5000
_MANY = f"""
    INSERT INTO run (id, tenant, agent_version_id, status, input, created_at, deadline_at, finished_at, token_budget,
        step_cap, open_steps, next_seq)
    SELECT gen_random_uuid(), 'default', (SELECT id FROM agent_version LIMIT 1),
        CASE WHEN n % 2 = 0 THEN 'ACTIVE' ELSE 'SUCCEEDED' END, '"x"', now() - n * interval '1 second',
        now() + n * interval '1 second', CASE WHEN n % 2 = 0 THEN NULL ELSE now() END, 1000, 50, (n + 1) % 2, 2
    FROM generate_series(1, {RUNS}) n"""
_STEPS = """
    INSERT INTO run_step (run_id, seq, turn, kind, status, queue, attempt, locked_by, run_at, due_at, created_at,
        finished_at, response)
    SELECT id, 1, 1, 'MODEL', status, 'model', 1, CASE WHEN status IN ('STARTED', 'DONE') THEN 'o' END, now(),
        CASE WHEN status <> 'DONE' THEN now() + random() * interval '1 hour' END, now(),
        CASE WHEN status = 'DONE' THEN now() END, '[]'
    FROM (SELECT id, CASE WHEN status <> 'ACTIVE' THEN 'DONE' WHEN random() < 0.4 THEN 'READY' WHEN random() < 0.5
        THEN 'WAITING' ELSE 'STARTED' END AS status FROM run WHERE input = '"x"') r"""


@pytest.fixture(scope="module")
def crowded(postgres_server: PostgresServer) -> Iterator[Store]:
    """A store with thousands of runs, half of them active."""
    url = postgres_server.create_database("crowded", template="migrated")
    store = Store(open_engine(url))
    store.create_run(new_run())
    with store.engine.begin() as connection:
        for statement in (_MANY, _STEPS):
            connection.exec_driver_sql(statement.replace("%", "%%"))
    with store.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE run, run_step, approval, agent_version")
    yield store
    store.close()
    postgres_server.drop_database("crowded")


def test_a_claim_reads_one_step_and_one_run_by_primary_key(crowded: Store) -> None:
    run_id, _ = crowded.create_run(new_run())
    [plan] = plans_of(crowded, lambda: crowded.claim_step(run_id, 1, fresh_owner()))
    used = index_conditions(plan)
    assert set(used) == {"pk_run_step", "pk_run"}
    assert "run_id" in used["pk_run_step"]
    assert "seq" in used["pk_run_step"]
    assert scanned(plan) == []


def test_a_checkpoint_finds_everything_by_primary_key(crowded: Store) -> None:
    _, claim = started_tool(crowded)
    plans = plans_of(crowded, lambda: crowded.finish_tool_step(claim.lease, returned()))
    assert [list(index_conditions(plan)) for plan in plans] == [["pk_run"], ["pk_run_step"], ["pk_run"]]
    assert [scanned(plan) for plan in plans] == [[], [], []]


@pytest.mark.parametrize("query", ["ring_due", "lapsed_claims", "expired_waits"])
def test_the_sweep_reads_only_what_is_due(crowded: Store, query: str) -> None:
    [plan] = plans_of(crowded, lambda: getattr(crowded, query)(20))
    condition = index_conditions(plan)["ix_run_step_due"]
    assert "status" in condition
    assert "due_at" in condition
    assert scanned(plan) == []


def test_overdue_runs_are_found_in_the_index_of_deadlines(crowded: Store) -> None:
    [plan] = plans_of(crowded, lambda: crowded.overdue_runs(200))
    assert "deadline_at" in index_conditions(plan)["ix_run_deadline"]
    assert scanned(plan) == []


def test_a_page_of_the_list_is_read_in_index_order_from_its_cursor(crowded: Store) -> None:
    first = crowded.list_runs("default", limit=50)
    cursor = (first[-1].created_at, first[-1].id)
    for after_run in (None, cursor):
        [plan] = plans_of(crowded, lambda after_run=after_run: crowded.list_runs("default", after_run=after_run))  # type: ignore[misc]
        used = index_conditions(plan)
        assert "tenant" in used["ix_run_listed"]
        assert ("created_at" in used["ix_run_listed"]) == (after_run is not None)
        assert "run" not in scanned(plan)


def test_a_page_of_one_status_is_read_in_index_order(crowded: Store) -> None:
    [plan] = plans_of(crowded, lambda: crowded.list_runs("default", status=ShownStatus.FAILED))
    assert "status" in index_conditions(plan)["ix_run_listed_by_status"]
    assert "run" not in scanned(plan)


def test_a_prefix_is_a_range_of_the_primary_key(crowded: Store) -> None:
    run_id, _ = crowded.create_run(new_run())
    [plan] = plans_of(crowded, lambda: crowded.get_run("default", run_id[:18]))
    assert "id" in index_conditions(plan)["pk_run"]
    assert "run" not in scanned(plan)


def test_history_is_read_by_primary_key(crowded: Store) -> None:
    run_id, _ = crowded.create_run(new_run())
    claimed(crowded, run_id, 1)
    for plan in plans_of(crowded, lambda: crowded.read_history(run_id, 2)):
        assert not {"run", "run_step"} & set(scanned(plan))
