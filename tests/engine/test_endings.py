"""How runs end or go on: stop reasons, budgets and caps, and what a run is refused at the door."""

from decimal import Decimal
from typing import Any

import pytest

from app.domain.agent import AgentVersion
from app.domain.decide import MAX_CONTINUATIONS
from app.domain.pricing import Price, PriceBook
from app.domain.run import NewRun
from app.domain.status import ShownStatus, StepStatus
from app.engine.drive import drive
from app.engine.submit import UnpricedModel, submit
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import tool
from tests.support.engine import MODEL, same_bytes, task, worker

RAN: list[str] = []


@tool(effect="KEYED")
def delete_rows(table: str) -> str:
    """Delete."""
    RAN.append(table)
    return "gone"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


CUT_OFF = {"type": "tool_use", "id": "toolu_1", "name": "delete_rows", "input": {"table": "t1"}}
TEXT = {"type": "text", "text": "I will look"}


@pytest.mark.parametrize(
    ("blocks", "stop_reason", "code"),
    [
        ([TEXT, CUT_OFF], "max_tokens", "output_truncated"),
        ([TEXT], "max_tokens", "output_truncated"),
        ([TEXT], "refusal", "refusal"),
        ([TEXT], "model_context_window_exceeded", "model_context_window_exceeded"),
        ([TEXT, CUT_OFF], "some_new_reason", "unknown_stop_reason"),
        ([TEXT], None, "unknown_stop_reason"),
        ([TEXT], "tool_use", "empty_tool_use"),
        ([], "tool_use", "empty_tool_use"),
    ],
)
def test_an_answer_that_is_no_end_and_no_call_fails_the_run_after_one_call(
    store: Store, blocks: list[dict[str, object]], stop_reason: str | None, code: str
) -> None:
    model = ScriptedModel().then_blocks(blocks, stop_reason, 10, 5).then_text("never asked")
    runtime = worker(store, model, [delete_rows])
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.error_code, run.steps, run.tokens_used) == (ShownStatus.FAILED, code, 1, 15)
    assert run.error_message
    assert (model.calls, RAN) == (1, [])


def test_text_before_a_stop_sequence_is_the_output(store: Store) -> None:
    model = ScriptedModel().then_blocks([TEXT, {"type": "text", "text": " twice"}], "stop_sequence")
    runtime = worker(store, model)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.output) == (ShownStatus.SUCCEEDED, "I will look twice")


def test_a_pause_goes_on_with_the_same_messages_and_the_answer_unchanged(store: Store) -> None:
    paused: list[dict[str, Any]] = [
        TEXT,
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1.0}},
    ]
    model = ScriptedModel().then_blocks(paused, "pause_turn").then_text("done")
    runtime = worker(store, model)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.output) == (ShownStatus.SUCCEEDED, "done")
    first, second = (request.messages for request in model.requests)
    assert same_bytes(second) == same_bytes([*first, {"role": "assistant", "content": paused}])


def test_a_model_that_only_pauses_is_ended(store: Store) -> None:
    model = ScriptedModel()
    for _ in range(2 * MAX_CONTINUATIONS):
        model.then_blocks([TEXT], "pause_turn")
    runtime = worker(store, model)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.error_code) == (ShownStatus.FAILED, "too_many_continuations")
    assert model.calls == MAX_CONTINUATIONS + 1


def _two_calls() -> ScriptedModel:
    model = ScriptedModel()
    model.then_tool_uses([("a", "delete_rows", {"table": "x"}), ("b", "delete_rows", {"table": "y"})], 90, 20)
    return model.then_text("never asked")


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"token_budget": 110}, "token_budget"),
        ({"cost_budget_nano": 1}, "cost_budget"),
        ({"step_cap": 2}, "step_cap"),
    ],
)
def test_a_used_up_budget_ends_the_run_before_any_tool_of_the_turn(
    store: Store, limits: dict[str, Any], code: str
) -> None:
    model = _two_calls()
    runtime = worker(store, model, [delete_rows])
    run = drive(runtime, submit(runtime, task(runtime, **limits)))
    assert (run.status, run.error_code, run.steps) == (ShownStatus.FAILED, code, 1)
    assert store.timeline(run.id)[0].status is StepStatus.DONE  # the answer was paid for, and is kept
    assert (model.calls, RAN) == (1, [])


def test_a_step_cap_also_ends_a_run_between_its_tools_and_the_next_call(store: Store) -> None:
    model = _two_calls()
    runtime = worker(store, model, [delete_rows])
    run = drive(runtime, submit(runtime, task(runtime, step_cap=3)))
    assert (run.status, run.error_code, run.steps) == (ShownStatus.FAILED, "step_cap", 3)
    assert (model.calls, sorted(RAN)) == (1, ["x", "y"])


@pytest.mark.parametrize(("budget", "max_tokens"), [(1_000_000, [1000, 1000]), (500, [500, 390])])
def test_a_call_may_not_write_more_than_the_budget_leaves(store: Store, budget: int, max_tokens: list[int]) -> None:
    model = _two_calls()
    runtime = worker(store, model, [delete_rows])
    drive(runtime, submit(runtime, task(runtime, token_budget=budget)))
    assert [request.max_tokens for request in model.requests] == max_tokens


def _of_model(model: str, cost_budget_nano: int | None = None) -> NewRun:
    return NewRun(AgentVersion(model, 100), "Go.", 1000, 60.0, 10, cost_budget_nano=cost_budget_nano)


def test_a_cost_budget_is_refused_for_a_model_without_a_price(sqlite_store: Store) -> None:
    runtime = worker(sqlite_store, ScriptedModel())
    with pytest.raises(UnpricedModel, match="no price for 'house-model'"):
        submit(runtime, _of_model("house-model", cost_budget_nano=1_000_000))
    assert sqlite_store.list_runs("default") == []
    submit(runtime, _of_model(MODEL, cost_budget_nano=1_000_000))


def test_a_model_without_a_price_costs_an_unknown_sum_with_a_warning_and_fails_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = worker(store, ScriptedModel().then_text("done", 10, 5))
    run = drive(runtime, submit(runtime, _of_model("house-model")))
    assert (run.status, run.cost_nano, run.unpriced_calls) == (ShownStatus.SUCCEEDED, 0, 1)
    assert store.timeline(run.id)[0].cost_nano is None
    assert "no price for house-model: its cost is unknown" in caplog.text


def test_a_step_costs_what_the_price_book_says(store: Store) -> None:
    rates = dict.fromkeys(("cache_write_5m", "cache_write_1h", "cache_read"), Decimal(0))
    book = PriceBook("mine", (Price(MODEL, {"input": Decimal(3), "output": Decimal("15.5"), **rates}),))
    runtime = worker(store, ScriptedModel().then_text("done", 1000, 200), prices=book)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert run.cost_nano == store.timeline(run.id)[0].cost_nano == 1000 * 3000 + 200 * 15_500
