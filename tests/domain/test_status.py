"""The transition tables are the only statement of the states; the schema's CHECK constraints say the same."""

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from app.domain.status import (
    FINAL_STEP_STATUSES,
    OPEN_STEP_STATUSES,
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    TERMINAL_RUN_STATUSES,
    RunStatus,
    ShownStatus,
    StepStatus,
    StopCode,
    terminal_status,
)
from app.store.dialect import now
from app.store.store import Store
from tests.support.builders import new_run, set_run, set_step


def test_both_tables_name_every_status_and_lead_nowhere_else() -> None:
    assert set(RUN_TRANSITIONS) == set(RunStatus)
    assert set(STEP_TRANSITIONS) == set(StepStatus)
    assert set().union(*RUN_TRANSITIONS.values()) <= set(RunStatus)
    assert set().union(*STEP_TRANSITIONS.values()) <= set(StepStatus)


def test_final_steps_never_change_and_open_ones_can_all_be_cancelled() -> None:
    assert {StepStatus.DONE, StepStatus.ERROR, StepStatus.CANCELLED} == FINAL_STEP_STATUSES
    assert {StepStatus.READY, StepStatus.STARTED, StepStatus.WAITING} == OPEN_STEP_STATUSES
    assert all(StepStatus.CANCELLED in STEP_TRANSITIONS[status] for status in OPEN_STEP_STATUSES)
    assert not any(STEP_TRANSITIONS[status] for status in FINAL_STEP_STATUSES)


def test_only_a_ready_step_can_be_started_and_only_a_started_or_waiting_one_done() -> None:
    before = {s: {a for a, following in STEP_TRANSITIONS.items() if s in following} for s in StepStatus}
    assert before[StepStatus.STARTED] == {StepStatus.READY}
    assert before[StepStatus.DONE] == {StepStatus.STARTED, StepStatus.WAITING}


def test_failed_and_timed_out_runs_can_be_reopened_and_no_others() -> None:
    reopened = {status for status in TERMINAL_RUN_STATUSES if RunStatus.ACTIVE in RUN_TRANSITIONS[status]}
    assert reopened == {RunStatus.FAILED, RunStatus.TIMED_OUT}


def test_every_terminal_status_is_shown_as_it_is_stored() -> None:
    assert {str(status) for status in TERMINAL_RUN_STATUSES} < {str(status) for status in ShownStatus}
    assert "ACTIVE" not in {str(status) for status in ShownStatus}


@pytest.mark.parametrize("code", StopCode)
def test_every_stop_code_has_a_terminal_status(code: StopCode) -> None:
    assert terminal_status(code) in TERMINAL_RUN_STATUSES - {RunStatus.SUCCEEDED}


@pytest.fixture
def run_id(store: Store) -> str:
    return store.create_run(new_run())[0]


# What a status may need besides on its row, or the schema refuses it.
_STEP_NEEDS = {"due_at": None, "finished_at": None, "locked_by": None, "attempt": 0, "response": None}


def _now(store: Store) -> object:
    with store.engine.connect() as connection:
        return connection.execute(select(now())).scalar_one()


def test_the_schema_takes_exactly_the_statuses_of_the_tables(store: Store, run_id: str) -> None:
    moment = _now(store)
    for status in StepStatus:
        final = status in FINAL_STEP_STATUSES
        set_step(
            store,
            run_id,
            1,
            **_STEP_NEEDS
            | {"status": status.value, "due_at": None if final else moment, "finished_at": moment if final else None}
            | ({"locked_by": "o", "attempt": 1} if status is StepStatus.STARTED else {})
            | ({"response": "[]"} if status is StepStatus.DONE else {}),
        )
    for run_status in RunStatus:
        ended = run_status in TERMINAL_RUN_STATUSES
        failed = ended and run_status is not RunStatus.SUCCEEDED
        set_run(
            store,
            run_id,
            status=run_status.value,
            finished_at=moment if ended else None,
            error_code="x" if failed else None,
            open_steps=0 if ended else 1,
        )
    for wrong in ("DONE", "QUEUED", "active", ""):
        with pytest.raises(IntegrityError):
            set_run(store, run_id, status=wrong)
    for wrong in ("ACTIVE", "ready", ""):
        with pytest.raises(IntegrityError):
            set_step(store, run_id, 1, status=wrong)


@pytest.mark.parametrize(
    "columns",
    [
        {"due_at": None},
        {"status": "STARTED"},
        {"status": "STARTED", "locked_by": "o"},
        {"locked_by": "o"},
        {"status": "DONE", "due_at": None},
        {"kind": "TOOL"},
        {"kind": "OTHER"},
        {"effect": "MAYBE"},
        {"turn": 0},
        {"attempt": -1},
        {"input_tokens": -1},
    ],
    ids=str,
)
def test_the_schema_refuses_a_step_that_no_verb_could_have_written(
    store: Store, run_id: str, columns: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError):
        set_step(store, run_id, 1, **columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "SUCCEEDED"},
        {"status": "FAILED", "error_code": "x"},
        {"error_code": "x"},
        {"stop_code": "cancelled"},
        {"open_steps": -1},
        {"open_steps": 2},
        {"next_seq": 0},
        {"tokens_used": -1},
        {"wasted_cost_nano": -1},
        {"token_budget": 0},
        {"cost_budget_nano": 0},
        {"step_cap": 0},
        {"forked_from_seq": 3},
    ],
    ids=str,
)
def test_the_schema_refuses_a_run_that_no_verb_could_have_written(
    store: Store, run_id: str, columns: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError):
        set_run(store, run_id, **columns)
