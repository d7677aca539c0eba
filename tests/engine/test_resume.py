"""The seed of it all: a worker dies in the middle of a tool, and another one finishes the run."""

import pytest

from app.domain.status import ShownStatus, StepStatus
from app.engine.drive import drive
from app.engine.submit import submit
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import ToolCall, tool
from tests.support.engine import let_everything_lapse, result_blocks, task, worker


class WorkerDied(BaseException):
    """kill -9, as far as a process can do it to itself: no `except Exception` sees it."""


@pytest.mark.every_database
def test_another_worker_finishes_what_a_dead_one_began_without_asking_the_model_again(store: Store) -> None:
    calls: list[tuple[str, str, int]] = []

    @tool(effect="KEYED")
    def charge(amount: int, call: ToolCall) -> str:
        """Charge."""
        calls.append((call.id, call.idempotency_key, call.attempt))
        if call.attempt == 1:
            raise WorkerDied
        return f"charged {amount}"

    model = ScriptedModel().then_tool_use("toolu_01", "charge", {"amount": 5}, 100, 20).then_text("Done.", 130, 10)
    first = worker(store, model, [charge])
    run_id = submit(first, task(first))
    with pytest.raises(WorkerDied):
        drive(first, run_id)
    assert store.timeline(run_id)[1].status is StepStatus.STARTED

    let_everything_lapse(store)
    second = worker(store, model, [charge])
    run = drive(second, run_id)

    assert run.status is ShownStatus.SUCCEEDED
    assert run.output == "Done."
    assert model.calls == 2
    assert calls == [("toolu_01", f"{run_id}:2", 1), ("toolu_01", f"{run_id}:2", 2)]
    steps = store.timeline(run_id)
    assert [(step.seq, step.status, step.attempt, step.crashes) for step in steps] == [
        (1, StepStatus.DONE, 1, 0),
        (2, StepStatus.DONE, 2, 1),
        (3, StepStatus.DONE, 1, 0),
    ]
    assert [block["content"] for block in result_blocks(model.requests[1].messages)] == ["charged 5"]
    assert run.tokens_used == 100 + 20 + 130 + 10


def test_finished_steps_are_not_done_again_by_the_next_worker(store: Store) -> None:
    """The first worker ends between two turns; only what was not written down is done by the second."""
    ran: list[int] = []

    @tool(effect="KEYED")
    def note(n: int) -> str:
        """Note."""
        ran.append(n)
        return str(n)

    def die(*_: object) -> None:
        raise WorkerDied

    model = ScriptedModel().then_tool_use("a", "note", {"n": 1}, 10, 5).then_call(die)  # type: ignore[arg-type]
    model.then_tool_use("b", "note", {"n": 2}, 20, 5).then_text("both", 30, 5)
    first = worker(store, model, [note])
    run_id = submit(first, task(first))
    with pytest.raises(WorkerDied):
        drive(first, run_id)

    let_everything_lapse(store)
    run = drive(worker(store, model, [note]), run_id)

    assert run.status is ShownStatus.SUCCEEDED
    assert ran == [1, 2]
    assert model.calls == 4  # one call was cut off by the death; every other answer was asked for once
    assert [step.attempt for step in store.timeline(run_id)] == [1, 1, 2, 1, 1]
