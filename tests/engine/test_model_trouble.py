"""A model that refuses, is busy, or is cut short: what is tried again, what is waited for, and what it costs."""

from dataclasses import replace

from app.domain.errors import CallCut, LlmError
from app.domain.run import Dispatch
from app.domain.status import ShownStatus, StepStatus, StopCode
from app.domain.usage import Usage
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.keeper import Keeper
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.retrying import Retrying
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from tests.support.builders import let_come_due, run_row, step_row
from tests.support.engine import task, worker


def _busy(code: str = "overloaded_error", *, retry_after_s: float | None = None, status: int = 529) -> LlmError:
    usage = Usage(input_tokens=11)
    return LlmError("busy", transient=True, code=code, status=status, retry_after_s=retry_after_s, usage=usage)


def _patient(store: Store, model: ScriptedModel, sleeps: list[float], max_tries: int = 6) -> Runtime:
    retrying = Retrying(model, max_tries=max_tries, inline_max_s=2.0, sleep=sleeps.append, rand=lambda: 0.5)
    return replace(worker(store, model), model=retrying)


def _step(runtime: Runtime, run_id: str, seq: int = 1) -> list[Dispatch]:
    return advance(runtime, run_id, seq, pid=1, task_id="t")


def test_an_error_for_good_ends_the_run_with_its_code_after_one_call(store: Store) -> None:
    model = ScriptedModel().then_fail(
        LlmError("max_tokens: too large", transient=False, code="invalid_request_error", status=400, request_id="req_9")
    )
    runtime = worker(store, model)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "invalid_request_error")
    assert run.error_message == "max_tokens: too large"
    assert model.calls == 1
    (step,) = store.timeline(run.id)
    assert (step.status, step.tries, step.request_id) == (StepStatus.ERROR, 1, "req_9")


def test_a_short_wait_is_slept_through_within_one_claim(store: Store) -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_busy(retry_after_s=1.5)).then_fail(_busy()).then_text("there", 10, 5)
    runtime = _patient(store, model, sleeps)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.tokens_used, run.wasted_tokens) == (ShownStatus.SUCCEEDED, 15, 22)
    assert run.wasted_cost_nano > 0
    (step,) = store.timeline(run.id)
    assert (step.attempt, step.tries) == (1, 3)
    assert sleeps == [1.5, 0.5]


def test_a_long_wait_holds_no_worker_and_is_over_when_the_server_said(store: Store) -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_busy("rate_limit_error", retry_after_s=7, status=429)).then_text("there")
    runtime = _patient(store, model, sleeps)
    run_id = submit(runtime, task(runtime))
    assert _step(runtime, run_id) == []

    row = step_row(store, run_id, 1)
    assert (row["status"], row["locked_by"], row["tries"]) == (StepStatus.READY, None, 1)
    assert row["error_code"] == "rate_limit_error"
    assert 7.0 <= (row["run_at"] - row["started_at"]).total_seconds() < 60.0
    assert row["due_at"] >= row["run_at"]
    assert (_step(runtime, run_id), model.calls) == ([], 1)  # a wake-up before that does nothing

    let_come_due(store, run_id, 1)
    _step(runtime, run_id)
    run = store.get_run(None, run_id)
    (step,) = store.timeline(run_id)
    assert (run.status, step.attempt, step.tries, step.error_code) == (ShownStatus.SUCCEEDED, 2, 2, None)
    assert (model.calls, sleeps, step.crashes) == (2, [], 0)


def test_the_tries_of_a_step_are_counted_over_all_its_claims(store: Store) -> None:
    model = ScriptedModel()
    for _ in range(10):
        model.then_fail(_busy("rate_limit_error", retry_after_s=7, status=429))
    runtime = _patient(store, model, [], max_tries=3)
    run_id = submit(runtime, task(runtime))
    for _ in range(5):
        _step(runtime, run_id)
        if store.get_run(None, run_id).finished_at is None:
            let_come_due(store, run_id, 1)
    run = store.get_run(None, run_id)
    assert (run.status, run.error_code, model.calls) == (ShownStatus.FAILED, "rate_limit_error", 3)
    assert (store.timeline(run_id)[0].tries, run.wasted_tokens) == (3, 33)


def test_a_wait_past_the_deadline_ends_the_run_now(store: Store) -> None:
    model = ScriptedModel().then_fail(_busy(retry_after_s=7)).then_text("never asked")
    runtime = worker(store, model)
    run_id = submit(runtime, task(runtime, timeout_s=5.0))
    assert _step(runtime, run_id) == []
    run = store.get_run(None, run_id)
    assert (run.status, run.error_code, model.calls) == (ShownStatus.TIMED_OUT, "deadline", 1)
    assert run.stop_reason == "waiting 7 s more would pass the deadline"
    assert store.timeline(run_id)[0].status is StepStatus.CANCELLED


def test_a_run_cancelled_during_a_call_ends_with_what_the_call_had_used(store: Store) -> None:
    model = ScriptedModel()
    runtime = worker(store, model)
    run_id = submit(runtime, task(runtime))

    def turn(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        assert store.stop_run(run_id, StopCode.CANCELLED, "no longer needed") == "ACTIVE"
        runtime.keeper.renew()
        assert cutoff.reason == "stopped"
        raise CallCut(cutoff.reason, Usage(50, 7))

    model.then_call(turn)
    assert _step(runtime, run_id) == []
    run = store.get_run(None, run_id)
    assert (run.status, run.error_code) == (ShownStatus.CANCELLED, "cancelled")
    assert (run.tokens_used, run.wasted_tokens) == (0, 57)
    assert run.wasted_cost_nano > 0
    (step,) = store.timeline(run_id)
    assert (step.status, step.tries, step.wasted_tokens) == (StepStatus.CANCELLED, 1, 57)


def test_an_answer_that_comes_after_a_cancel_is_counted_but_runs_no_tool(store: Store) -> None:
    model = ScriptedModel()
    runtime = worker(store, model)
    run_id = submit(runtime, task(runtime))

    def turn(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        store.stop_run(run_id, StopCode.CANCELLED)
        return ScriptedModel().then_tool_use("toolu_1", "charge", {}, 40, 2).complete(request, Cutoff())

    model.then_call(turn)
    assert _step(runtime, run_id) == []
    run = store.get_run(None, run_id)
    assert (run.status, run.tokens_used, run.steps) == (ShownStatus.CANCELLED, 42, 1)
    assert store.stop_run(run_id, StopCode.CANCELLED) == "CANCELLED"


def test_a_call_is_ended_at_the_deadline_of_its_run(store: Store) -> None:
    model, now = ScriptedModel(), [100.0]
    runtime = worker(store, model, keeper=Keeper(store, clock=lambda: now[0]))
    run_id = submit(runtime, task(runtime, timeout_s=10.0))

    def turn(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        runtime.keeper.watch()
        assert cutoff.reason is None
        now[0] += 10.0
        runtime.keeper.watch()
        assert cutoff.reason == "deadline"
        raise CallCut("deadline", Usage(50, 7))

    model.then_call(turn)
    assert _step(runtime, run_id) == []
    run = store.get_run(None, run_id)
    assert (run.status, run.error_code, run.wasted_tokens) == (ShownStatus.TIMED_OUT, "deadline", 57)


def test_a_cancel_ends_a_wait_that_the_worker_sleeps_through(store: Store) -> None:
    model = ScriptedModel().then_fail(_busy(retry_after_s=1.0)).then_text("never asked")
    runtime: Runtime
    run_id = ""

    def sleep(seconds: float) -> None:
        store.stop_run(run_id, StopCode.CANCELLED)
        runtime.keeper.renew()

    runtime = replace(worker(store, model), model=Retrying(model, max_tries=6, inline_max_s=2.0, sleep=sleep))
    run_id = submit(runtime, task(runtime))
    _step(runtime, run_id)
    run = store.get_run(None, run_id)
    assert (run.status, run.wasted_tokens, model.calls) == (ShownStatus.CANCELLED, 11, 1)


def test_no_connection_is_held_while_the_model_thinks(store: Store) -> None:
    model = ScriptedModel()
    runtime = worker(store, model)
    held: list[int] = []

    def turn(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        held.append(store.engine.pool.checkedout())  # type: ignore[attr-defined]
        return ScriptedModel().then_text("thought").complete(request, cutoff)

    model.then_call(turn)
    _step(runtime, submit(runtime, task(runtime)))
    assert held == [0]


def test_the_row_of_a_waiting_run_counts_its_waste_before_it_ends(store: Store) -> None:
    model = ScriptedModel().then_fail(_busy(retry_after_s=7))
    runtime = worker(store, model)
    run_id = submit(runtime, task(runtime))
    _step(runtime, run_id)
    row = run_row(store, run_id)
    assert (row["status"], row["wasted_tokens"], row["tokens_used"]) == ("ACTIVE", 11, 0)
