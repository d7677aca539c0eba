"""Runs as people see them."""

import json

import pytest
from sqlalchemy import update

from app.domain.errors import AmbiguousRunId, RunNotFound
from app.domain.outcome import Postponed
from app.domain.run import RunView
from app.domain.status import ShownStatus, StopCode
from app.store.runs import EXCERPT
from app.store.store import Store
from app.store.tables import run, run_step
from tests.support.builders import (
    AGENT,
    claimed,
    let_come_due,
    new_run,
    opened_turn,
    returned,
    started_model,
    text_answer,
)


def with_id(store: Store, run_id: str, tenant: str = "default") -> str:
    """A run with a chosen id (one without steps: only for looking it up)."""
    unaudited = Store(store.engine)
    created, _ = unaudited.create_run(new_run(tenant=tenant))
    with store.engine.begin() as connection:
        connection.execute(run_step.delete().where(run_step.c.run_id == created))
        connection.execute(update(run).where(run.c.id == created).values(id=run_id))
    return run_id


@pytest.mark.every_database
def test_a_run_is_found_by_its_id_and_by_any_unique_prefix(store: Store) -> None:
    one = with_id(store, "6f1c0a52-0000-4000-8000-00000000abcd")
    with_id(store, "6f1c0a53-0000-4000-8000-000000000000")
    for prefix in (one, one.upper(), one.replace("-", ""), "6f1c0a52", "6f1c0a52-", "6f1c0a52-00"):
        assert store.get_run("default", prefix).id == one
    for prefix in ("6", "6f1c0a5"):
        with pytest.raises(AmbiguousRunId):
            store.get_run("default", prefix)


@pytest.mark.parametrize(
    "text", ["", "-", "7", "zz", "6f1c%", "6f1c0a52-0000-4000-8000-00000000abcd0", "6f1c\x00", "é"]
)
def test_what_is_no_prefix_of_any_run_is_not_found(store: Store, text: str) -> None:
    with_id(store, "6f1c0a52-0000-4000-8000-00000000abcd")
    with pytest.raises(RunNotFound):
        store.get_run("default", text)


def test_the_first_and_the_last_possible_id_are_found(store: Store) -> None:
    for run_id in ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"):
        with_id(store, run_id)
        assert store.get_run("default", run_id[:2]).id == run_id


def test_tenants_see_their_own_runs_only(store: Store) -> None:
    mine = with_id(store, "6f1c0a52-0000-4000-8000-000000000001", "mine")
    theirs = with_id(store, "6f1c0a52-0000-4000-8000-000000000002", "theirs")
    assert store.get_run("mine", "6f1c").id == mine
    with pytest.raises(RunNotFound):
        store.get_run("mine", theirs)
    assert [view.id for view in store.list_runs("theirs")] == [theirs]
    assert store.list_runs("default") == []


def pages(store: Store, limit: int, status: ShownStatus | None = None) -> list[list[RunView]]:
    """All pages, followed by their cursor."""
    found: list[list[RunView]] = []
    after_run = None
    while page := store.list_runs("default", status=status, after_run=after_run, limit=limit):
        found.append(page)
        assert len(found) < 100, "the pages never end"
        after_run = (page[-1].created_at, page[-1].id)
    return found


@pytest.mark.every_database
def test_the_pages_of_a_list_have_no_gap_and_no_double_even_among_equal_times(store: Store) -> None:
    runs = [store.create_run(new_run())[0] for _ in range(9)]
    same_time = store.get_run("default", runs[0]).created_at
    with store.engine.begin() as connection:
        connection.execute(update(run).where(run.c.id.in_(runs[:5])).values(created_at=same_time))
    for limit in (1, 2, 4, 9, 50):
        seen = [view for page in pages(store, limit) for view in page]
        assert [(v.created_at, v.id) for v in seen] == sorted(((v.created_at, v.id) for v in seen), reverse=True)
        assert {view.id for view in seen} == set(runs)
        assert len(seen) == 9


def test_a_run_that_starts_meanwhile_does_not_shift_the_pages(store: Store) -> None:
    runs = [store.create_run(new_run())[0] for _ in range(4)]
    first = store.list_runs("default", limit=2)
    store.create_run(new_run())
    rest = store.list_runs("default", limit=50, after_run=(first[-1].created_at, first[-1].id))
    assert {view.id for view in first + rest} == set(runs)


def test_each_run_is_shown_in_one_status_and_listed_under_it(store: Store) -> None:
    expected = {
        store.create_run(new_run())[0]: ShownStatus.QUEUED,
        started_model(store)[0]: ShownStatus.RUNNING,
        opened_turn(store, "look"): ShownStatus.RUNNING,
        opened_turn(store, "wipe", "look"): ShownStatus.RUNNING,
        opened_turn(store, "wipe"): ShownStatus.WAITING,
    }
    done, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(), AGENT)
    failed, claim = started_model(store)
    store.finish_model_step(claim.lease, text_answer(stop_reason="refusal"), AGENT)
    cancelled, late = store.create_run(new_run())[0], store.create_run(new_run())[0]
    store.stop_run(cancelled, StopCode.CANCELLED)
    store.stop_run(late, StopCode.DEADLINE)
    expected |= {
        done: ShownStatus.SUCCEEDED,
        failed: ShownStatus.FAILED,
        cancelled: ShownStatus.CANCELLED,
        late: ShownStatus.TIMED_OUT,
    }
    assert {view.id: view.status for view in store.list_runs("default")} == expected
    for status in ShownStatus:
        listed = {view.id for page in pages(store, 1, status) for view in page}
        assert listed == {run_id for run_id, shown in expected.items() if shown is status}, status


def test_a_run_is_not_queued_any_more_once_it_was_claimed_even_when_it_was_given_back(store: Store) -> None:
    run_id, claim = started_model(store)
    store.postpone_step(claim.lease, Postponed(30.0, 1, "overloaded_error"))
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING
    let_come_due(store, run_id, 1)
    assert store.get_run("default", run_id).status is ShownStatus.RUNNING


def test_the_timeline_has_every_step_in_order(store: Store) -> None:
    run_id = opened_turn(store, "look", "put")
    for seq in (3, 2):
        store.finish_tool_step(claimed(store, run_id, seq).lease, returned())
    steps = store.timeline(run_id)
    assert [step.seq for step in steps] == [1, 2, 3, 4]
    assert steps[1].started_at is not None
    assert steps[1].finished_at is not None
    assert steps[1].created_at <= steps[1].started_at <= steps[1].finished_at
    assert steps[3].started_at is None


def test_a_database_that_was_never_migrated_says_so(sqlite_store: Store) -> None:
    assert sqlite_store.ping() is None


@pytest.mark.parametrize(
    ("run_input", "beginning"),
    [
        ("a" * 5000, "a" * 490),
        ('\\\n"é\u0001' * 1000, '\\\n"é'),
        ([{"type": "text", "text": "b" * 5000}], '[{"type":"text","text":"bbb'),
    ],
)
def test_a_list_shows_the_beginning_of_a_long_input_and_the_run_itself_all_of_it(
    store: Store, run_input: str | list[dict[str, str]], beginning: str
) -> None:
    """A page of a hundred runs must not weigh what a hundred inputs weigh."""
    run_id, _ = store.create_run(new_run(input=run_input))
    claim = claimed(store, run_id, 1)
    store.finish_model_step(claim.lease, text_answer("c" * 5000), AGENT)

    [listed] = store.list_runs("default")
    shown = json.loads(listed.input)
    assert shown.startswith(beginning)
    assert shown.endswith("…")
    assert len(listed.input) < 2000
    assert listed.output == "c" * EXCERPT + "…"
    whole = store.get_run("default", run_id)
    assert json.loads(whole.input) == run_input
    assert whole.output == "c" * 5000


def test_a_list_shows_short_inputs_as_they_are(store: Store) -> None:
    store.create_run(new_run(input="short"))
    [listed] = store.list_runs("default")
    assert json.loads(listed.input) == "short"
