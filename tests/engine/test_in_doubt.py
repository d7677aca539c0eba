"""A call of which nobody knows whether it took effect, and a call that nobody here can make."""

import threading
from typing import Any

import pytest

from app.domain.run import RunView
from app.domain.status import ShownStatus, StepStatus
from app.domain.text import dumps
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.engine.sweep import sweep
from app.llm.scripted import ScriptedModel
from app.store.dialect import after
from app.store.store import Store
from app.tools import ToolCall, tool
from app.tools.declare import Tool
from tests.support.builders import approval_rows, let_come_due, let_lapse, set_step, step_row
from tests.support.engine import result_blocks, task, worker


class _Died(BaseException):
    pass


class _Payments:
    """A payment that does what the test wants at its first attempt, and is made at every other."""

    def __init__(self, effect: str, first: Any) -> None:
        self.attempts: list[int] = []

        @tool(effect=effect, timeout_s=0.05, verify=(lambda call: None) if effect == "VERIFIED" else None)
        def pay(call: ToolCall) -> str:
            """Pay."""
            self.attempts.append(call.attempt)
            if call.attempt == 1:
                first()
            return "paid"

        self.tool: Tool[..., Any] = pay


def _die() -> None:
    raise _Died


def _hang() -> None:
    while True:
        pass


def _begun(store: Store, payments: _Payments) -> tuple[Runtime, ScriptedModel, str]:
    """A run whose first payment was begun, and whatever became of it has been noticed."""
    model = ScriptedModel().then_tool_use("toolu_1", "pay", {}).then_text("done")
    runtime = worker(store, model, [payments.tool])
    run_id = submit(runtime, task(runtime))
    advance(runtime, run_id, 1, pid=1, task_id="t")
    try:
        advance(runtime, run_id, 2, pid=1, task_id="t")
    except _Died:
        let_lapse(store, run_id, 2)
    sweep(runtime)
    return runtime, model, run_id


@pytest.mark.parametrize("first", [_die, _hang])
@pytest.mark.parametrize("effect", ["UNSAFE", "VERIFIED"])
def test_a_call_that_may_not_repeat_waits_for_a_person_when_its_end_is_not_known(
    store: Store, effect: str, first: Any
) -> None:
    payments = _Payments(effect, first)
    runtime, model, run_id = _begun(store, payments)
    (question,) = approval_rows(store, run_id)
    assert (question["kind"], question["status"], question["seq"]) == ("in_doubt", "PENDING", 2)
    assert question["reason"].endswith("whether the call took effect is not known")
    for _ in range(3):
        sweep(runtime)
        assert advance(runtime, run_id, 2, pid=1, task_id="t") == []
    assert store.get_run(None, run_id).status is ShownStatus.WAITING
    assert (payments.attempts, model.calls) == ([1], 1)


def _decided(store: Store, verdict: str, **more: Any) -> tuple[RunView, _Payments, ScriptedModel]:
    payments = _Payments("UNSAFE", _die)
    runtime, model, run_id = _begun(store, payments)
    runtime.dispatcher.dispatch(store.decide(run_id, 2, verdict=verdict, by="ann", **more))
    return drive(runtime, run_id), payments, model


def test_a_person_may_let_it_run_again_under_the_same_key(store: Store) -> None:
    run, payments, model = _decided(store, "run")
    assert (run.status, payments.attempts) == (ShownStatus.SUCCEEDED, [1, 2])
    assert result_blocks(model.requests[-1].messages)[0]["content"] == "paid"


def test_a_person_may_say_that_it_was_done_and_with_what_result(store: Store) -> None:
    run, payments, model = _decided(store, "done", result=dumps("receipt 7"))
    assert (run.status, payments.attempts) == (ShownStatus.SUCCEEDED, [1])
    assert result_blocks(model.requests[-1].messages)[0]["content"] == "receipt 7"


def test_a_person_may_end_the_run(store: Store) -> None:
    run, payments, model = _decided(store, "fail", why="call the bank")
    assert (run.status, run.error_code, run.stop_reason) == (
        ShownStatus.FAILED,
        "failed_by_reviewer",
        "call the bank",
    )
    assert (payments.attempts, model.calls) == ([1], 1)


@pytest.mark.parametrize("effect", ["READ", "KEYED"])
def test_a_call_that_may_repeat_is_told_to_the_model_when_it_takes_too_long(store: Store, effect: str) -> None:
    payments = _Payments(effect, _hang)
    runtime, model, run_id = _begun(store, payments)
    run = drive(runtime, run_id)
    (block,) = result_blocks(model.requests[-1].messages)
    assert block["content"] == "timed out: the tool did not return within 0.05 s"
    assert block["is_error"]
    step = store.timeline(run_id)[1]
    assert (run.status, step.error_code, payments.attempts) == (ShownStatus.SUCCEEDED, "timed_out", [1])


def test_a_call_is_ended_at_the_deadline_of_its_run_though_its_own_limit_is_far(store: Store) -> None:
    whole: list[str] = []

    @tool(effect="READ", timeout_s=60.0)
    def look() -> None:
        """Look."""
        threading.Event().wait(5)
        whole.append("seen")

    model = ScriptedModel().then_tool_use("toolu_1", "look", {})
    runtime = worker(store, model, [look])
    run = drive(runtime, submit(runtime, task(runtime, timeout_s=0.5)))
    assert (run.status, run.error_code, model.calls) == (ShownStatus.TIMED_OUT, "deadline", 1)
    assert whole == []


def _elsewhere(store: Store) -> tuple[Runtime, Runtime, str]:
    """A worker with the tool, one without, and a run whose next step is a call of it."""
    payments = _Payments("UNSAFE", lambda: None)
    model = ScriptedModel().then_tool_use("toolu_1", "pay", {}).then_text("done")
    able, unable = worker(store, model, [payments.tool]), worker(store, model)
    run_id = submit(able, task(able))
    advance(able, run_id, 1, pid=1, task_id="t")
    return able, unable, run_id


def test_a_call_whose_tool_is_not_here_is_left_to_others_in_five_seconds(store: Store) -> None:
    able, unable, run_id = _elsewhere(store)
    assert advance(unable, run_id, 2, pid=1, task_id="t") == []
    row = step_row(store, run_id, 2)
    assert (row["status"], row["locked_by"], row["error_code"]) == (StepStatus.READY, None, "tool_unavailable")
    assert 5.0 <= (row["run_at"] - row["started_at"]).total_seconds() < 30.0
    let_come_due(store, run_id, 2)
    assert drive(able, run_id).status is ShownStatus.SUCCEEDED


def test_a_call_whose_tool_is_nowhere_ends_its_run_after_a_time(store: Store) -> None:
    _, unable, run_id = _elsewhere(store)
    set_step(store, run_id, 2, created_at=after(-301.0), attempt=60)
    assert advance(unable, run_id, 2, pid=1, task_id="t") == []
    run = store.get_run(None, run_id)
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "tool_unavailable")
    assert run.stop_reason == f"pay is not implemented on {unable.node}"


def test_a_call_that_waited_long_for_something_else_is_not_given_up_at_once(store: Store) -> None:
    """For a person's approval, say: at its first claim it is old, and yet nobody has looked for its tool."""
    able, unable, run_id = _elsewhere(store)
    set_step(store, run_id, 2, created_at=after(-3600.0))
    advance(unable, run_id, 2, pid=1, task_id="t")
    let_come_due(store, run_id, 2)
    assert drive(able, run_id).status is ShownStatus.SUCCEEDED
