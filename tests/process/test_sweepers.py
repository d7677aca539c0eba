"""Who sweeps: beat's ticks, however many beats there are; and the maintenance worker by itself when none comes."""

import pytest

from tests.support.stack import MakeStack, Stack, calls, says, wait_for

SLOW_DOWN = {"status": 429, "headers": {"retry-after": "3"}, "error": {"type": "rate_limit_error", "message": "!"}}


@pytest.fixture
def stack(make_stack: MakeStack) -> Stack:
    stack = make_stack(lease_s=20.0)
    stack.start_node("worker-A")
    return stack


def test_without_beat_the_maintenance_worker_sweeps_by_itself(stack: Stack) -> None:
    maintenance = stack.start("maintenance", "maintenance")
    stack.ready()
    # Its retry can only be rung for by a sweep.
    run_ids = [stack.submit(SLOW_DOWN, says()) for _ in range(2)]
    stack.succeeded(*run_ids)
    assert "sweeping alone" in maintenance.text()
    stack.start_beat()
    wait_for("beat to be heard", lambda: "beat is back" in maintenance.text())


def test_two_beats_and_two_maintenance_workers_double_nothing(stack: Stack) -> None:
    for name in ("maintenance-1", "maintenance-2"):
        stack.start(name, "maintenance")
        stack.start_beat()
    stack.ready()
    run_ids = [stack.submit(SLOW_DOWN, calls(("slow_note", {"n": 1, "seconds": 0})), says()) for _ in range(10)]
    stack.succeeded(*run_ids)
    for run_id in run_ids:
        assert stack.model_calls(run_id) == 3
        assert [step.attempt for step in stack.store.timeline(run_id)] == [2, 1, 1]
        assert [line.split()[0] for line in stack.effects(run_id)] == ["start", "end"]
