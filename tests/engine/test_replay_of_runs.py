"""What is sent to the model in the course of a run (invariant I10), and that any request can be made again."""

import itertools
from dataclasses import asdict

from app.domain.status import ShownStatus
from app.domain.text import dumps, sha256
from app.engine.drive import drive
from app.engine.perform import build_request
from app.engine.submit import submit
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools import tool
from tests.support.builders import step_row
from tests.support.engine import same_bytes, task, worker


@tool(effect="READ")
def echo(value: object = None) -> object:
    """Give it back."""
    return value


def _long_talk() -> ScriptedModel:
    model = ScriptedModel()
    model.then_blocks(
        [
            {"type": "thinking", "thinking": "a\n b  ", "signature": "S1=="},
            {"type": "redacted_thinking", "data": "R1"},
            {"type": "text", "text": ""},
            {"type": "text", "text": "Let me see. \u0000 \U0001f600"},
            {"type": "tool_use", "id": "same", "name": "echo", "input": {"value": [1.0, 9007199254740993, "é\u0000"]}},
            {"type": "some_new_block", "field": {"z": 1, "a": [2]}},
        ],
        "tool_use",
        10,
        5,
    )
    model.then_tool_uses([("same", "echo", {"value": n}) for n in range(3)], 20, 5)
    for n in range(5):
        model.then_tool_use(f"toolu_{n}", "echo", {"value": {"n": n}}, 30, 5)
    return model.then_text("done", 40, 5)


def test_each_request_begins_with_the_one_before_to_the_letter(store: Store) -> None:
    model = _long_talk()
    runtime = worker(store, model, [echo])
    run = drive(runtime, submit(runtime, task(runtime)))

    assert run.status is ShownStatus.SUCCEEDED
    sent = [[same_bytes(message) for message in request.messages] for request in model.requests]
    assert len(sent) == 8
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier
        assert len(later) == len(earlier) + 2
    assert len({same_bytes([r.system, r.tools, r.model, r.max_tokens]) for r in model.requests}) == 1


def test_what_the_model_said_is_sent_back_block_for_block(store: Store) -> None:
    model = _long_talk()
    runtime = worker(store, model, [echo])
    drive(runtime, submit(runtime, task(runtime)))

    said = model.requests[1].messages[1]["content"]
    assert [block["type"] for block in said] == ["thinking", "redacted_thinking", "text", "tool_use", "some_new_block"]
    assert said[0] == {"type": "thinking", "thinking": "a\n b  ", "signature": "S1=="}
    assert said[3]["input"] == {"value": [1.0, 9007199254740993, "é\u0000"]}
    assert said[4] == {"type": "some_new_block", "field": {"z": 1, "a": [2]}}


def test_the_request_of_any_step_can_be_made_again(store: Store) -> None:
    model = _long_talk()
    runtime = worker(store, model, [echo])
    run_id = submit(runtime, task(runtime))
    drive(runtime, run_id)

    models = [step.seq for step in store.timeline(run_id) if step.tool_name is None]
    for seq, request in zip(models, model.requests, strict=True):
        again = build_request(store.read_history(run_id, seq))
        assert again == request
        assert step_row(store, run_id, seq)["request_hash"] == sha256(dumps(asdict(again)))


def test_a_request_made_again_does_not_depend_on_what_the_run_has_used_since(store: Store) -> None:
    """`max_tokens` is lowered to what was left then, not to what is left now."""
    model = ScriptedModel().then_tool_use("a", "echo", {}, 300, 50).then_text("done", 400, 50)
    runtime = worker(store, model, [echo])
    run_id = submit(runtime, task(runtime, token_budget=900))
    drive(runtime, run_id)

    assert [request.max_tokens for request in model.requests] == [900, 550]
    assert [build_request(store.read_history(run_id, seq)).max_tokens for seq in (1, 3)] == [900, 550]
