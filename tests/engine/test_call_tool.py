"""Whatever a tool does or returns, the model reads it, once; the run goes on."""

import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.domain.errors import ToolError
from app.domain.run import RunView, StepView
from app.domain.status import ShownStatus, StepStatus
from app.engine.advance import advance
from app.engine.drive import drive
from app.engine.submit import submit
from app.llm.client import ModelRequest
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import ToolCall, tool
from app.tools.declare import Tool
from tests.support.engine import result_blocks, task, worker


def _run(store: Store, tools: list[Tool[..., Any]], *uses: tuple[str, str, Any]) -> tuple[RunView, ModelRequest]:
    """A run of one turn with these calls; what the model was told of them is in the last request."""
    model = ScriptedModel().then_tool_uses(list(uses), 10, 5).then_text("done", 20, 5)
    runtime = worker(store, model, tools)
    run = drive(runtime, submit(runtime, task(runtime)))
    assert (run.status, run.output) == (ShownStatus.SUCCEEDED, "done")
    return run, model.requests[-1]


def _told(store: Store, tool: Tool[..., Any], arguments: Any = None) -> tuple[dict[str, Any], StepView]:
    """The tool_result of a single call, and its step."""
    run, request = _run(store, [tool], ("toolu_1", tool.name, {} if arguments is None else arguments))
    (block,) = result_blocks(request.messages)
    assert block["tool_use_id"] == "toolu_1"
    return block, store.timeline(run.id)[1]


def test_a_tool_that_raises_without_words_is_named_and_its_siblings_keep_their_results(store: Store) -> None:
    @tool(effect="READ")
    def ok(n: int) -> str:
        """Fine."""
        return str(n)

    @tool(effect="READ")
    def boom() -> str:
        """Not fine."""
        raise ValueError

    run, request = _run(store, [ok, boom], ("a", "ok", {"n": 1}), ("b", "boom", {}), ("c", "ok", {"n": 2}))
    assert [message["role"] for message in request.messages] == ["user", "assistant", "user"]
    assert request.messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": "ValueError", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c", "content": "2"},
    ]
    steps = store.timeline(run.id)[1:4]
    assert [step.status for step in steps] == [StepStatus.DONE, StepStatus.ERROR, StepStatus.DONE]
    assert steps[1].error_code == "raised"


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (KeyError("id"), "KeyError: 'id'"),
        (ToolError("no such ticket"), "no such ticket"),
        (SystemExit(2), "SystemExit: 2"),
        (SystemExit(), "SystemExit"),
        (RuntimeError("bad \x00 \ud835"), "RuntimeError: bad \ufffd \ufffd"),
    ],
)
def test_what_a_tool_raises_is_told_to_the_model(store: Store, raised: BaseException, text: str) -> None:
    @tool(effect="UNSAFE")
    def boom() -> None:
        """Raise."""
        raise raised

    block, step = _told(store, boom)
    assert (block["content"], block["is_error"], step.error_code, step.attempt) == (text, True, "raised", 1)


class _ToolsOwn(BaseException):
    pass


@pytest.mark.parametrize("raised", [KeyboardInterrupt, _ToolsOwn])
def test_what_asks_for_the_end_of_the_process_goes_up_and_leaves_the_claim_to_lapse(
    store: Store, raised: type[BaseException]
) -> None:
    @tool(effect="READ")
    def leave() -> None:
        """Raise."""
        raise raised

    model = ScriptedModel().then_tool_use("toolu_1", "leave", {})
    runtime = worker(store, model, [leave])
    run_id = submit(runtime, task(runtime))
    with pytest.raises(raised):
        drive(runtime, run_id)
    step = store.timeline(run_id)[1]
    assert (step.status, step.crashes) == (StepStatus.STARTED, 0)


def test_arguments_that_do_not_fit_are_told_to_the_model_and_the_tool_does_not_run(store: Store) -> None:
    ran: list[int] = []

    @tool(effect="UNSAFE")
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    block, step = _told(store, pay, {"amount": "much", "extra": 1})
    assert block["is_error"]
    assert "amount" in block["content"]
    assert "extra" in block["content"]
    assert (step.status, step.error_code, ran) == (StepStatus.ERROR, "bad_arguments", [])


@pytest.mark.parametrize("arguments", ["text", [1], 5, None])
def test_arguments_that_are_no_object_are_told_to_the_model(store: Store, arguments: Any) -> None:
    @tool(effect="READ")
    def look(day: str) -> str:
        """Look."""
        return day

    run, request = _run(store, [look], ("toolu_1", "look", arguments))
    (block,) = result_blocks(request.messages)
    assert block["is_error"]
    assert store.timeline(run.id)[1].error_code == "bad_arguments"


def test_an_unknown_tool_is_answered_with_the_names_of_those_that_exist(store: Store) -> None:
    @tool(effect="READ")
    def list_tickets() -> str:
        """List."""
        return "none"

    run, request = _run(store, [list_tickets], ("toolu_1", "list_tikets", {}), ("toolu_2", "list_tickets", {}))
    wrong, right = result_blocks(request.messages)
    assert wrong["is_error"]
    assert wrong["content"] == (
        "There is no tool 'list_tikets'. Did you mean 'list_tickets'? The tools are: list_tickets."
    )
    assert right["content"] == "none"
    step = store.timeline(run.id)[1]
    assert (step.status, step.error_code, step.tool_name) == (StepStatus.ERROR, "unknown_tool", "list_tikets")


def test_text_that_no_store_can_hold_is_replaced_and_the_tool_runs_once(store: Store) -> None:
    ran: list[int] = []

    @tool(effect="KEYED")
    def speak() -> object:
        """Speak."""
        ran.append(1)
        latin = b"caf\x96 5".decode("utf-8", "surrogateescape")
        return {"nul": "name\x00\x00end", "deep": {"k\x00": [latin, "\ud835", "\U0001d49c 漢 é"]}, "\ud835": 1}

    block, step = _told(store, speak)
    assert block["content"] == (
        '{"nul":"name\ufffd\ufffdend","deep":{"k\ufffd":["caf\ufffd 5","\ufffd","\U0001d49c 漢 é"]},"\ufffd":1}'
    )
    assert (step.status, step.attempt, ran) == (StepStatus.DONE, 1, [1])


def test_a_result_that_json_cannot_say_is_written_in_words_and_the_effect_not_repeated(store: Store) -> None:
    ran: list[int] = []

    @tool(effect="KEYED")
    def work() -> object:
        """Work."""
        ran.append(1)
        when = datetime(2026, 11, 30, 12, tzinfo=UTC)
        return {"when": when, "sum": Decimal("10.10"), "ids": {2, 1}, "raw": b"\xff\xfe", 7: "int key"}

    block, step = _told(store, work)
    assert block["content"] == (
        '{"when":"2026-11-30T12:00:00+00:00","sum":"10.10","ids":[1,2],"raw":"base64://4=","7":"int key"}'
    )
    assert (step.status, ran) == (StepStatus.DONE, [1])


class _Hostile:
    """A value that does something else than say what it is."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def __str__(self) -> str:
        self._act()
        return "never"


def _never_ends() -> None:
    threading.Event().wait()


def _exits() -> None:
    raise SystemExit


@pytest.mark.parametrize("act", [_never_ends, _exits])
def test_a_value_that_will_not_be_written_does_not_take_the_effect_into_doubt(sqlite_store: Store, act: Any) -> None:
    @tool(effect="UNSAFE")
    def pay() -> object:
        """Pay."""
        return _Hostile(act)

    block, step = _told(sqlite_store, pay)
    assert block["content"] == "[a value of type _Hostile that could not be written as text]"
    assert (step.status, step.attempt) == (StepStatus.DONE, 1)


def test_integers_beyond_2_to_the_53_are_exact_in_call_result_and_history(store: Store) -> None:
    big, seen = 2**63 + 1, []

    @tool(effect="READ")
    def same(id: int) -> object:
        """Give it back."""
        seen.append(id)
        return {"id": id}

    _, request = _run(store, [same], ("toolu_1", "same", {"id": big}))
    assert seen == [big]
    assert request.messages[1]["content"][0]["input"] == {"id": big}
    assert result_blocks(request.messages)[0]["content"] == f'{{"id":{big}}}'


def test_a_huge_result_is_cut_with_a_marker(sqlite_store: Store) -> None:
    @tool(effect="READ")
    def flood() -> str:
        """Flood."""
        return "ab\n" * 5_000_000

    block, step = _told(sqlite_store, flood)
    assert len(block["content"]) < 101_000
    assert block["content"].endswith("[14900000 of 15000000 characters cut]")
    assert step.status is StepStatus.DONE


def test_a_tool_use_id_that_comes_back_in_a_later_turn_belongs_to_its_own_call(store: Store) -> None:
    added: list[int] = []

    @tool(effect="KEYED")
    def add(n: int) -> int:
        """Add."""
        added.append(n)
        return n

    model = ScriptedModel().then_tool_use("add_1", "add", {"n": 1}).then_tool_use("add_1", "add", {"n": 2})
    runtime = worker(store, model.then_text("done"), [add])
    assert drive(runtime, submit(runtime, task(runtime))).status is ShownStatus.SUCCEEDED
    assert added == [1, 2]
    messages = model.requests[-1].messages
    asked = [block["id"] for message in messages[1::2] for block in message["content"]]
    answered = result_blocks(messages)
    assert len(set(asked)) == 2
    assert asked == [block["tool_use_id"] for block in answered]
    assert [block["content"] for block in answered] == ["1", "2"]


def test_a_tool_knows_its_call(store: Store) -> None:
    calls: list[ToolCall] = []

    @tool(effect="READ", timeout_s=30)
    def look(call: ToolCall) -> str:
        """Look."""
        calls.append(call)
        return f"{call.stopped()} {25 < call.time_left() <= 30}"

    block, _ = _told(store, look)
    (call,) = calls
    assert (call.id, call.attempt, call.seq) == ("toolu_1", 1, 2)
    assert call.idempotency_key == f"{call.run_id}:2"
    assert block["content"] == "False True"


def test_outside_the_main_thread_a_tool_runs_without_a_soft_limit(store: Store) -> None:
    @tool(effect="READ", timeout_s=0.01)
    def slow() -> str:
        """Be slow."""
        time.sleep(0.05)
        return "there"

    model = ScriptedModel().then_tool_use("toolu_1", "slow", {})
    runtime = worker(store, model, [slow])
    run_id = submit(runtime, task(runtime))
    advance(runtime, run_id, 1, pid=1, task_id="t")
    thread = threading.Thread(target=advance, args=(runtime, run_id, 2), kwargs={"pid": 1, "task_id": "t"})
    thread.start()
    thread.join(10)
    assert store.timeline(run_id)[1].status is StepStatus.DONE
