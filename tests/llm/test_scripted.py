"""The model that plays a script."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.domain.errors import CallCut, LlmError
from app.domain.usage import Usage
from app.llm.client import Cutoff, ModelRequest
from app.llm.scripted import ScriptedModel


def _request(*texts: str) -> ModelRequest:
    return ModelRequest("some-model", 100, [{"role": "user", "content": text} for text in texts])


def test_turns_are_played_in_order_with_their_usage() -> None:
    model = ScriptedModel().then_tool_use("toolu_1", "add", {"b": 1, "a": 2}, 812, 64).then_text("3", in_=900, out=7)
    first, second = (model.complete(_request("add"), Cutoff()) for _ in range(2))
    assert json.loads(first.content) == [
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"b": 1, "a": 2}}
    ]
    assert (first.stop_reason, first.usage, first.model) == ("tool_use", Usage(812, 64), "some-model")
    assert json.loads(second.content) == [{"type": "text", "text": "3"}]
    assert (second.stop_reason, second.usage) == ("end_turn", Usage(900, 7))
    assert model.calls == 2


def test_one_turn_can_ask_for_several_tools() -> None:
    model = ScriptedModel().then_tool_uses([("toolu_1", "add", {}), ("toolu_2", "sub", {})])
    blocks = json.loads(model.complete(_request("go"), Cutoff()).content)
    assert [(block["id"], block["name"]) for block in blocks] == [("toolu_1", "add"), ("toolu_2", "sub")]


def test_any_blocks_with_any_stop_reason() -> None:
    blocks = [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "half"}]
    response = ScriptedModel().then_blocks(blocks, "max_tokens", 1, 2).complete(_request("go"), Cutoff())
    assert (json.loads(response.content), response.stop_reason) == (blocks, "max_tokens")


def test_failures_are_raised_as_given() -> None:
    error = LlmError("no", transient=False, code="invalid_request_error", status=400)
    with pytest.raises(LlmError) as raised:
        ScriptedModel().then_fail(error).complete(_request("go"), Cutoff())
    assert raised.value is error


def test_a_turn_can_be_code_that_sees_the_request_and_the_cutoff() -> None:
    inner = ScriptedModel().then_text("late")
    model = ScriptedModel().then_call(inner.complete)
    assert json.loads(model.complete(_request("go"), Cutoff()).content)[0]["text"] == "late"
    assert inner.requests == model.requests


def test_requests_are_kept_as_they_were_when_they_came() -> None:
    model = ScriptedModel().then_text("a").then_text("b")
    request = _request("one")
    model.complete(request, Cutoff())
    request.messages.append({"role": "user", "content": "two"})
    model.complete(request, Cutoff())
    assert [len(seen.messages) for seen in model.requests] == [1, 2]


def test_one_request_too_many_says_so_and_is_terminal() -> None:
    model = ScriptedModel().then_text("only")
    model.complete(_request("go"), Cutoff())
    with pytest.raises(LlmError, match="the script has 1 turns and this is request 2") as raised:
        model.complete(_request("go"), Cutoff())
    assert (raised.value.code, raised.value.transient) == ("script_exhausted", False)


def test_a_cut_call_takes_no_turn() -> None:
    model = ScriptedModel().then_text("later")
    cutoff = Cutoff()
    cutoff.cut("stopped")
    with pytest.raises(CallCut, match="stopped"):
        model.complete(_request("go"), cutoff)
    assert json.loads(model.complete(_request("go"), Cutoff()).content)[0]["text"] == "later"


def test_threads_get_each_turn_once() -> None:
    model = ScriptedModel()
    for number in range(200):
        model.then_text(str(number))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: model.complete(_request("go"), Cutoff()).content, range(200)))
    assert len(set(answers)) == model.calls == 200
