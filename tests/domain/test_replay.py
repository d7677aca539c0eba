"""The messages of a run are rebuilt from its steps: the same every time, and only ever longer (invariant I10)."""

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.replay import Message, PastStep, replay
from app.domain.status import StepKind, StepStatus
from app.domain.text import dumps

INPUT = '"Which tickets are overdue?"'
TEXTS = ["", " ", "\n", "a", "b", "é😀", "\x00", " x "]

texts = st.sampled_from(TEXTS).map(lambda text: {"type": "text", "text": text})
thoughts = st.sampled_from(["", "hm"]).map(lambda t: {"type": "thinking", "thinking": t, "signature": "c2ln=="})
others = st.just({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"z": 1, "a": 2.50}})
# Few ids, so that they repeat within a turn and between turns, as foreign gateways make them.
calls = st.builds(
    lambda id_, value: {"type": "tool_use", "id": id_, "name": "look", "input": {"z": value, "a": 1}},
    st.sampled_from(["toolu_1", "toolu_2", "toolu_1-2", "toolu_1-3", "call_0", ""]),
    st.integers(0, 3),
)
endings = st.sampled_from(
    [
        (StepStatus.DONE, '"fine"', False),
        (StepStatus.DONE, '[{"type":"text","text":"x"}]', False),
        (StepStatus.ERROR, '"bad"', True),
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> list[PastStep]:
    """The final steps of some complete turns with tools."""
    steps: list[PastStep] = []
    for turn in range(1, draw(st.integers(0, 4)) + 1):
        said = draw(st.lists(texts | thoughts | others, max_size=3)) + draw(st.lists(calls, min_size=1, max_size=3))
        said = draw(st.permutations(said))
        steps.append(PastStep(len(steps) + 1, turn, StepKind.MODEL, StepStatus.DONE, dumps(said)))
        for call in [block for block in said if block["type"] == "tool_use"]:
            status, result, is_error = draw(endings)
            seq = len(steps) + 1
            steps.append(PastStep(seq, turn, StepKind.TOOL, status, None, str(call["id"]), result, is_error))
    return steps


def turns(steps: list[PastStep]) -> list[list[PastStep]]:
    """The steps by turn."""
    found: dict[int, list[PastStep]] = {}
    for step in steps:
        found.setdefault(step.turn, []).append(step)
    return list(found.values())


def use_ids(message: Message) -> list[str]:
    """The ids of a message's calls."""
    return [block["id"] for block in message["content"] if block["type"] == "tool_use"]


@given(histories())
def test_roles_alternate_and_the_user_begins_and_ends(steps: list[PastStep]) -> None:
    roles = [message["role"] for message in replay(INPUT, steps)]
    assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    assert roles[-1] == "user"
    assert len(roles) == 1 + 2 * len(turns(steps))


@given(histories())
def test_every_call_is_answered_once_in_the_next_message_which_holds_results_only(steps: list[PastStep]) -> None:
    messages = replay(INPUT, steps)[1:]
    for said, answered in zip(messages[::2], messages[1::2], strict=True):
        assert {block["type"] for block in answered["content"]} == {"tool_result"}
        assert [block["tool_use_id"] for block in answered["content"]] == use_ids(said)


@given(histories())
def test_no_two_calls_of_a_run_share_an_id_and_none_is_empty(steps: list[PastStep]) -> None:
    ids = [name for message in replay(INPUT, steps)[1::2] for name in use_ids(message)]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert all(ids)


@given(histories())
def test_what_the_model_said_is_echoed_byte_for_byte_but_for_the_two_repairs(steps: list[PastStep]) -> None:
    for message, turn in zip(replay(INPUT, steps)[1::2], turns(steps), strict=True):
        said = [b for b in json.loads(turn[0].response or "") if not (b["type"] == "text" and not b["text"].strip())]
        assert len(message["content"]) == len(said)
        for echoed, original in zip(message["content"], said, strict=True):
            same_id = {**echoed, "id": original["id"]} if original["type"] == "tool_use" else echoed
            assert dumps(same_id) == dumps(original)


@given(histories())
def test_an_id_that_was_not_seen_before_is_kept(steps: list[PastStep]) -> None:
    seen: set[str] = set()
    for message, turn in zip(replay(INPUT, steps)[1::2], turns(steps), strict=True):
        for echoed, step in zip(use_ids(message), turn[1:], strict=True):
            assert step.tool_use_id is not None
            assert (echoed == step.tool_use_id) == (bool(step.tool_use_id) and step.tool_use_id not in seen)
            seen.add(echoed)


@settings(max_examples=200)
@given(histories())
def test_the_messages_of_a_later_call_begin_with_those_of_an_earlier_one(steps: list[PastStep]) -> None:
    whole = dumps(replay(INPUT, steps))
    for end in range(len(steps) + 1):
        if end == len(steps) or steps[end].kind is StepKind.MODEL:
            part = dumps(replay(INPUT, steps[:end]))
            assert whole.startswith(part[:-1])


@given(histories())
def test_no_text_that_the_api_would_refuse_is_sent(steps: list[PastStep]) -> None:
    sent = [block for message in replay(INPUT, steps)[1:] for block in message["content"] if block["type"] == "text"]
    assert all(block["text"].strip() for block in sent)


def _model(seq: int, turn: int, said: list[dict[str, Any]], status: StepStatus = StepStatus.DONE) -> PastStep:
    return PastStep(seq, turn, StepKind.MODEL, status, dumps(said))


def test_a_run_without_steps_is_its_input() -> None:
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "source": {}}]
    assert replay(dumps(blocks), []) == [{"role": "user", "content": blocks}]


def test_failed_and_cancelled_model_steps_add_nothing() -> None:
    steps = [
        PastStep(1, 1, StepKind.MODEL, StepStatus.ERROR),
        PastStep(2, 2, StepKind.MODEL, StepStatus.CANCELLED),
    ]
    assert len(replay(INPUT, steps)) == 1


def test_an_answer_of_nothing_but_empty_text_adds_no_message() -> None:
    assert len(replay(INPUT, [_model(1, 1, [{"type": "text", "text": ""}])])) == 1


def test_a_paused_answer_is_echoed_and_the_next_one_follows_it() -> None:
    steps = [_model(1, 1, [{"type": "text", "text": "a"}]), _model(2, 2, [{"type": "text", "text": "b"}])]
    assert [message["role"] for message in replay(INPUT, steps)] == ["user", "assistant", "assistant"]


def test_a_cancelled_call_is_answered_too() -> None:
    said = [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    cancelled = PastStep(2, 1, StepKind.TOOL, StepStatus.CANCELLED, None, "t1")
    [block] = replay(INPUT, [_model(1, 1, said), cancelled])[2]["content"]
    assert block["tool_use_id"] == "t1"
    assert block["is_error"] is True
    assert block["content"]
