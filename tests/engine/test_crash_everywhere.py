"""A worker dies at boundary 1, then at boundary 2, and so on until one run passes untouched.

After each death another worker, which has heard no message, finishes the run; then everything is as if nobody had died.
"""

from collections import Counter

from app.domain.run import RunView
from app.domain.status import ShownStatus, StepStatus
from app.engine.drive import drive
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import ToolCall, tool
from app.tools.declare import Tool
from tests.support.crash import CrashPoints, SimulatedCrash
from tests.support.engine import let_everything_lapse, result_blocks, task, worker
from tests.support.invariants import check_invariants

CALLS = [("toolu_a", "charge", {"amount": 1}), ("toolu_b", "look", {})]


class _Model:
    """Answers by what it is asked, so that a repeated call gets the same answer; counts by the state of the talk."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()

    def complete(self, request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        self.asked[len(request.messages)] += 1
        scripted = ScriptedModel()
        if result_blocks(request.messages):
            scripted.then_text("charged and looked", 40, 5)
        else:
            scripted.then_tool_uses(CALLS, 20, 10)
        return scripted.complete(request, cutoff)


class _World:
    """One run from the post to its end, with a death at boundary `at`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.model = _Model()
        self.charged: list[str] = []
        self.looked = 0

    def tools(self) -> list[Tool[..., object]]:
        @tool(effect="KEYED")
        def charge(amount: int, call: ToolCall) -> str:
            """Charge."""
            self.charged.append(call.idempotency_key)
            return f"charged {amount}"

        @tool(effect="READ")
        def look() -> str:
            """Look."""
            self.looked += 1
            return "seen"

        return [charge, look]

    def worker(self) -> Runtime:
        return worker(self.store, self.model, self.tools())

    def work(self, known: set[str]) -> RunView:
        """Post a run unless it is there, and drive it to its end."""
        runtime = self.worker()
        ids = {run.id for run in self.store.list_runs("default", limit=100)} - known
        run_id = ids.pop() if ids else submit(runtime, task(runtime))
        return drive(runtime, run_id, idle=lambda _: let_everything_lapse(self.store))


def _die_at(store: Store, at: int) -> tuple[_World, RunView, CrashPoints]:
    world, known = _World(store), {run.id for run in store.list_runs("default", limit=100)}
    points = CrashPoints(store, at=at)
    try:
        with points:
            run = world.work(known)
    except SimulatedCrash:
        let_everything_lapse(store)
        run = world.work(known)
    return world, run, points


def test_a_run_survives_a_death_at_every_write_boundary(store: Store) -> None:
    seen: list[str] = []
    for at in range(1, 200):
        world, run, points = _die_at(store, at)
        where = points.seen[at - 1] if points.crashed else "nowhere"
        _as_if_nothing_happened(world, run, where)
        check_invariants(store.engine)
        if not points.crashed:
            assert at > 20, f"only {at - 1} boundaries: {seen}"
            return
        seen.append(where)
    raise AssertionError(f"no pass was untouched: {seen}")


def _as_if_nothing_happened(world: _World, run: RunView, where: str) -> None:
    assert run.status is ShownStatus.SUCCEEDED, where
    assert run.output == "charged and looked", where
    steps = world.store.timeline(run.id)
    assert [step.status for step in steps] == [StepStatus.DONE] * 4, where
    assert [step.tool_name for step in steps] == [None, "charge", "look", None], where
    assert run.tokens_used == 20 + 10 + 40 + 5, where
    assert run.cost_nano == sum(step.cost_nano or 0 for step in steps) > 0, where
    # One key for the effect however often it was begun, and one death repeats at most what was under way.
    assert set(world.charged) == {f"{run.id}:2"}, where
    assert len(world.charged) + world.looked <= 3, where
    assert sum(world.model.asked.values()) <= 3, where
    assert sum(step.attempt - 1 for step in steps) <= 1, where
