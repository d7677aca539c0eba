"""Advancing one step: wake-ups that come too often or too late, and claims that are lost on the way."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.domain.agent import AgentVersion
from app.domain.lease import Lease
from app.domain.outcome import Answered
from app.domain.run import Dispatch
from app.domain.status import ShownStatus, StepStatus, StopCode
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.scripted import ScriptedModel
from app.store.dialect import after
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.builders import claimed, let_come_due, set_step, step_row
from tests.support.engine import task, worker


def _step(runtime: Runtime, run_id: str, seq: int = 1) -> list[Dispatch]:
    return advance(runtime, run_id, seq, pid=1, task_id="t")


def _finished(runtime: Runtime) -> str:
    run_id = submit(runtime, task(runtime))
    drive(runtime, run_id)
    return run_id


def _held_by_another(runtime: Runtime) -> str:
    run_id = submit(runtime, task(runtime))
    claimed(runtime.store, run_id, 1)
    return run_id


def _not_yet_due(runtime: Runtime) -> str:
    run_id = submit(runtime, task(runtime))
    set_step(runtime.store, run_id, 1, run_at=after(60.0))
    return run_id


def _cancelled(runtime: Runtime) -> str:
    run_id = submit(runtime, task(runtime))
    runtime.store.stop_run(run_id, StopCode.CANCELLED)
    return run_id


def _unknown(runtime: Runtime) -> str:
    return str(uuid.uuid4())


@pytest.mark.parametrize("situation", [_finished, _held_by_another, _not_yet_due, _cancelled, _unknown])
def test_a_wake_up_for_what_cannot_be_claimed_does_nothing(store: Store, situation: Callable[[Runtime], str]) -> None:
    model = ScriptedModel().then_text("once")
    runtime = worker(store, model)
    run_id = situation(runtime)
    before = (store.timeline(run_id), model.calls)
    assert [_step(runtime, run_id) for _ in range(3)] == [[], [], []]
    assert (store.timeline(run_id), model.calls) == before
    assert _step(runtime, run_id, seq=99) == []


def test_two_workers_at_the_same_step_make_one_call(store: Store) -> None:
    both_there = threading.Barrier(2)
    model = ScriptedModel().then_tool_use("toolu_1", "nothing", {})
    workers = [worker(store, model) for _ in range(2)]
    run_id = submit(workers[0], task(workers[0]))

    def go(runtime: Runtime) -> list[Dispatch]:
        both_there.wait(10)
        return _step(runtime, run_id)

    with ThreadPoolExecutor(2) as pool:
        opened = list(pool.map(go, workers))
    assert model.calls == 1
    assert sorted(len(dispatches) for dispatches in opened) == [0, 1]


def test_an_answer_that_comes_after_the_lease_was_lost_is_dropped(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    model, others = ScriptedModel(), ScriptedModel().then_text("mine", 7, 3)
    late, other = worker(store, model), worker(store, others)
    run_id = submit(late, task(late))

    def overtaken(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        owner = step_row(store, run_id, 1)["locked_by"]
        store.lapse_step(Lapsed(run_id, 1, owner, when_due=False))
        assert _step(other, run_id) == []
        return ScriptedModel().then_tool_use("toolu_1", "charge", {}, 1000, 1000).complete(request, cutoff)

    model.then_call(overtaken)
    assert _step(late, run_id) == []
    run = store.get_run(None, run_id)
    assert (run.status, run.output, run.tokens_used, run.steps) == (ShownStatus.SUCCEEDED, "mine", 10, 1)
    assert f"lease lost: run={run_id} seq=1 attempt=1: its result is dropped" in caplog.text


def test_a_call_that_was_cut_because_the_lease_is_lost_writes_nothing(store: Store) -> None:
    model = ScriptedModel()
    runtime = worker(store, model)
    run_id = submit(runtime, task(runtime))

    def cut(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        cutoff.cut("lease_lost")
        return ScriptedModel().then_text("never said").complete(request, cutoff)

    model.then_call(cut)
    assert _step(runtime, run_id) == []
    row = step_row(store, run_id, 1)
    assert (row["status"], row["tries"], row["response"]) == (StepStatus.STARTED, 0, None)


class _BadCheckpoint(Store):
    """A store that cannot write answers down."""

    def __init__(self, store: Store, failures: int) -> None:
        super().__init__(store.engine, max_crashes=3)
        self._failures = failures

    def finish_model_step(self, lease: Lease, answer: Answered, agent: AgentVersion) -> list[Dispatch]:
        self._failures -= 1
        if self._failures >= 0:
            raise RuntimeError("no space left on device")
        return super().finish_model_step(lease, answer, agent)


def test_a_step_whose_checkpoint_fails_is_released_at_once_and_counted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel().then_text("first").then_text("second")
    runtime = worker(_BadCheckpoint(store, failures=1), model)
    run_id = submit(runtime, task(runtime))
    (again,) = _step(runtime, run_id)
    assert (again.run_id, again.seq) == (run_id, 1)
    row = step_row(store, run_id, 1)
    assert (row["status"], row["crashes"], row["locked_by"]) == (StepStatus.READY, 1, None)
    assert "could not be finished; its claim is given up" in caplog.text
    assert "no space left on device" in caplog.text
    assert drive(runtime, run_id).output == "second"


def test_a_step_whose_checkpoint_always_fails_ends_its_run(store: Store) -> None:
    model = ScriptedModel().then_text("1").then_text("2").then_text("3")
    runtime = worker(_BadCheckpoint(store, failures=100), model)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "crash_loop")
    assert run.stop_reason == "step 1 ended its worker 3 times"
    assert model.calls == 3


def test_drive_works_off_whatever_is_in_line_and_waits_when_nothing_is(sqlite_store: Store) -> None:
    model = ScriptedModel().then_text("a").then_text("b")
    runtime = worker(sqlite_store, model)
    later = submit(runtime, task(runtime))
    sooner = submit(runtime, task(runtime))
    set_step(sqlite_store, later, 1, run_at=after(60.0), due_at=after(60.0))
    waited: list[float] = []

    def idle(seconds: float) -> None:
        waited.append(seconds)
        let_come_due(sqlite_store, later, 1)

    assert drive(runtime, later, idle=idle).status is ShownStatus.SUCCEEDED
    assert sqlite_store.get_run(None, sooner).status is ShownStatus.SUCCEEDED
    assert waited == [0.2]
