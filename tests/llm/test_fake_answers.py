"""What the real SDK gets from the local Messages API: scripted turns, plain and streamed, errors, faults, usage."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from app.llm.fake import sse
from app.llm.fake_server import FakeServer
from tests.support.raw_api import ask, call

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Let me see\n what " + "there is. " * 9, "signature": "S1=="},
    {"type": "redacted_thinking", "data": "R1"},
    {"type": "text", "text": ""},
    {"type": "text", "text": "Long enough to come in pieces: \U0001f600\x00 caf\u00e9."},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1, "a": {"deep": ["x" * 40, None]}}},
    {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
]


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def client(fake: FakeServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="any", base_url=fake.url, max_retries=0, timeout=5) as each:
        yield each


def streamed(client: anthropic.Anthropic, body: dict[str, Any]) -> Message:
    with client.messages.stream(**body) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize("is_stream", [False, True])
def test_scripted_blocks_arrive_as_written(fake: FakeServer, client: anthropic.Anthropic, is_stream: bool) -> None:
    usage = {"input_tokens": 812, "output_tokens": 64}
    fake.script("k", [{"content": BLOCKS, "usage": usage}])
    body = ask("[script:k]")
    message = streamed(client, body) if is_stream else client.messages.create(**body)
    content: Any = message.to_dict(mode="json")["content"]
    assert content == BLOCKS
    # The SDK orders a block's own fields its way; what is inside an input keeps its order.
    assert json.dumps([block.get("input") for block in content]) == json.dumps([each.get("input") for each in BLOCKS])
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (812, 64)
    assert message.usage.cache_read_input_tokens == 0


def test_every_event_of_a_stream_is_one_that_the_sdk_knows() -> None:
    message = {
        **Message.model_validate(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 5, "output_tokens": 7, "service_tier": "standard"},
            }
        ).to_dict(mode="json"),
        "content": BLOCKS,
    }
    events = list(sse.events(message))
    adapter: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for event in events:
        if event["type"] != "ping":
            adapter.validate_python(event)
    assert events[0]["message"]["usage"] == {"input_tokens": 5, "output_tokens": 1, "service_tier": "standard"}
    assert events[-2]["usage"] == {"input_tokens": 5, "output_tokens": 7}


@pytest.mark.parametrize("stream", [False, True])
def test_unknown_block_and_stop_reason_pass_through(fake: FakeServer, stream: bool) -> None:
    fake.script("k", [{"content": [{"type": "zork", "x": {"y": 1}}], "stop_reason": "compaction"}])
    answer = call(fake.url, ask("[script:k]", stream=stream)).body
    assert b'{"type":"zork","x":{"y":1}}' in answer
    assert b'"stop_reason":"compaction"' in answer


def test_block_of_known_type_must_be_valid_in_a_script(fake: FakeServer) -> None:
    with pytest.raises(ValueError, match=r"content 0 is no tool_use block: id: Field required"):
        fake.script("k", [{"content": [{"type": "tool_use", "name": "look", "input": {}}]}])


def test_turns_are_played_in_order_errors_included_and_then_the_script_is_exhausted(
    fake: FakeServer, client: anthropic.Anthropic
) -> None:
    limited = {"type": "rate_limit_error", "message": "slow down", "details": {"error_code": "ramp_limit_exceeded"}}
    fake.script("k", [{"status": 429, "headers": {"retry-after": "7"}, "error": limited}])
    fake.script("k", [{"content": [{"type": "text", "text": "done"}]}])
    with pytest.raises(anthropic.RateLimitError) as refused:
        streamed(client, ask("[script:k]"))
    assert refused.value.response.headers["retry-after"] == "7"
    assert refused.value.error_code == "ramp_limit_exceeded"
    assert streamed(client, ask("[script:k]")).stop_reason == "end_turn"
    with pytest.raises(anthropic.InternalServerError, match="script exhausted"):
        streamed(client, ask("[script:k]"))
    assert [entry.status for entry in fake.requests("k")] == [429, 200, 500]


def test_overload_and_a_proxys_page_are_answered_as_scripted(fake: FakeServer, client: anthropic.Anthropic) -> None:
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    fake.script("k", [{"status": 529, "error": overloaded}, {"status": 502, "body": "<html>Bad Gateway</html>"}])
    with pytest.raises(anthropic.InternalServerError) as first:
        client.messages.create(**ask("[script:k]"))
    assert (first.value.status_code, first.value.type) == (529, "overloaded_error")
    with pytest.raises(anthropic.InternalServerError) as second:
        client.messages.create(**ask("[script:k]"))
    assert (second.value.status_code, second.value.type) == (502, None)


def test_refused_request_takes_no_turn_of_its_script(fake: FakeServer, client: anthropic.Anthropic) -> None:
    fake.script("k", [{"content": [{"type": "text", "text": "still there"}]}])
    assert call(fake.url, ask("[script:k]", top_k=1)).status == 400
    assert streamed(client, ask("[script:k]")).content
    assert [entry.status for entry in fake.requests("k")] == [400, 200]


def test_script_is_found_by_metadata_too(fake: FakeServer, client: anthropic.Anthropic) -> None:
    fake.script("k", [{"content": [{"type": "text", "text": "found"}]}])
    message = client.messages.create(**ask(metadata={"user_id": "tenant [script:k]"}))
    assert message.to_dict()["content"] == [{"type": "text", "text": "found"}]


def test_paused_conversation_may_end_with_the_assistant_and_no_other(fake: FakeServer) -> None:
    paused = [{"type": "text", "text": "searching"}]
    fake.script("k", [{"content": paused, "stop_reason": "pause_turn"}, {"content": paused}])
    call(fake.url, ask("[script:k]"))
    messages = [{"role": "user", "content": "[script:k]"}, {"role": "assistant", "content": paused}]
    assert call(fake.url, ask(messages=messages)).status == 200
    assert call(fake.url, ask(messages=messages)).status == 400


def test_dropped_stream_breaks_in_mid_answer(fake: FakeServer, client: anthropic.Anthropic) -> None:
    fake.script("k", [{"content": BLOCKS, "fault": "drop"}])
    with client.messages.stream(**ask("[script:k]")) as stream, pytest.raises(httpx2.RemoteProtocolError):
        stream.until_done()
    assert stream.current_message_snapshot.usage.input_tokens > 0
    assert [entry.finished for entry in fake.requests("k")] == [False]


def test_stream_that_ends_cleanly_without_its_end_has_no_stop_reason(
    fake: FakeServer, client: anthropic.Anthropic
) -> None:
    fake.script("k", [{"content": BLOCKS, "fault": "eof"}])
    assert streamed(client, ask("[script:k]")).stop_reason is None


def test_error_event_breaks_a_stream_with_its_type(fake: FakeServer, client: anthropic.Anthropic) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    fake.script("k", [{"content": BLOCKS, "fault": "error_event", "error": error}])
    with pytest.raises(anthropic.APIStatusError) as broken:
        streamed(client, ask("[script:k]"))
    assert (broken.value.status_code, broken.value.type) == (200, "overloaded_error")


@pytest.mark.parametrize(("fault", "status"), [("hang", 200), ("silent", 0)])
def test_silent_server_stays_silent_until_the_client_gives_up(
    fake: FakeServer, client: anthropic.Anthropic, fault: str, status: int
) -> None:
    fake.script("k", [{"content": BLOCKS, "fault": fault}])
    with pytest.raises((httpx2.ReadTimeout, anthropic.APITimeoutError)):
        streamed(client.with_options(timeout=0.2), ask("[script:k]"))
    assert [(entry.status, entry.finished) for entry in fake.requests("k")] == [(status, False)]


def test_first_bytes_come_before_the_answer_is_over(fake: FakeServer, client: anthropic.Anthropic) -> None:
    fake.script("k", [{"content": BLOCKS, "latency_s": 0.4}])
    with client.messages.stream(**ask("[script:k]")) as stream:
        next(iter(stream))
        assert [entry.finished for entry in fake.requests("k")] == [False]
        stream.until_done()
    assert [entry.finished for entry in fake.requests("k")] == [True]


def test_client_that_leaves_is_not_logged_as_answered(fake: FakeServer, client: anthropic.Anthropic) -> None:
    fake.script("k", [{"content": BLOCKS, "latency_s": 0.2}, {"content": BLOCKS}])
    with client.messages.stream(**ask("[script:k]")) as stream:
        next(iter(stream))
    streamed(client, ask("[script:k]"))
    assert [entry.finished for entry in fake.requests("k")] == [False, True]


def test_closing_server_cuts_those_who_wait() -> None:
    with FakeServer(latency_s=60) as server:
        failed = threading.Event()

        def wait_for_answer() -> None:
            with pytest.raises(OSError):  # noqa: PT011 (reset or closed, by the moment)
                call(server.url, ask())
            failed.set()

        waiting = threading.Thread(target=wait_for_answer)
        waiting.start()
        while not server.requests():
            waiting.join(0.01)
    assert failed.wait(5)
    waiting.join()


def test_usage_follows_the_cached_prefix(fake: FakeServer, client: anthropic.Anthropic) -> None:
    system = [{"type": "text", "text": "rule " * 2000, "cache_control": {"type": "ephemeral"}}]
    first = streamed(client, ask(system=system)).usage
    second = streamed(client, ask("another question", system=system)).usage
    changed = streamed(client, ask(system=[{**system[0], "text": "Rule" + "rule " * 2000}])).usage
    assert (first.cache_read_input_tokens, second.cache_creation_input_tokens) == (0, 0)
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert first.cache_creation_input_tokens
    assert first.cache_creation_input_tokens > 2000
    assert changed.cache_read_input_tokens == 0
    assert second.input_tokens < 100


def test_moving_the_breakpoint_keeps_the_cached_prefix(fake: FakeServer, client: anthropic.Anthropic) -> None:
    bare = {"type": "text", "text": "rule " * 2000}
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
    first = streamed(client, ask(system=[{**bare, **mark}])).usage
    later = streamed(client, ask(system=[bare], messages=[{"role": "user", "content": "more " * 999}], **mark)).usage
    assert later.cache_read_input_tokens == first.cache_creation_input_tokens
    assert later.cache_creation_input_tokens
