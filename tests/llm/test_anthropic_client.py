"""Anthropic's SDK against a server that we control to the byte: what is sent, and what is kept."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.domain.errors import ConfigError, LlmError
from app.domain.usage import Usage
from app.llm.anthropic_client import AnthropicClient
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from tests.support.raw_server import PING, Peer, RawServer, raw_server
from tests.support.stream_events import MESSAGE_STOP, block, message_delta, message_start, streaming, text_block, whole

pytestmark = pytest.mark.timeout(60)

REQUEST = ModelRequest("claude-sonnet-5-5", 100, [{"role": "user", "content": [{"type": "text", "text": "go"}]}])


def _ask(server: RawServer, request: ModelRequest = REQUEST, **options: Any) -> ModelResponse:
    client = AnthropicClient("key", server.url, **options)
    try:
        return client.complete(request, Cutoff())
    finally:
        client.close()


def test_importing_the_module_does_not_import_anthropic() -> None:
    dear = "('anthropic', 'httpx2', 'httpcore2', 'pydantic')"
    code = f"import sys, app.llm.anthropic_client; print([name for name in {dear} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_request_goes_out_as_it_was_given_in_the_same_order() -> None:
    odd = {"z": 1, "a": None, "big": 2**70, "text": "\x00é😀", "float": 1e22}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "sig", "novel": {"y": 1, "x": [odd]}},
                {"type": "never_heard_of", "b": 1, "a": 2},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": odd},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]},
    ]
    tools = [{"name": "add", "input_schema": {"type": "object", "properties": {"z": {}, "a": {}}, "x-novel": None}}]
    request = ModelRequest("claude-sonnet-5-5", 100, messages, system="Be brief.", tools=tools, effort="low")
    before = json.dumps([messages, tools])
    with raw_server(streaming(*whole())) as server:
        _ask(server, request)
        seen = server.requests[0]
    assert [json.dumps(seen.body["messages"]), json.dumps(seen.body["tools"])] == [
        json.dumps(messages),
        json.dumps(tools),
    ]
    assert seen.body["stream"] is True
    assert set(seen.body) == {
        *("model", "max_tokens", "messages", "cache_control", "system", "tools", "output_config", "stream")
    }
    assert seen.headers["authorization"] == "Bearer key"
    assert json.dumps([messages, tools]) == before


@pytest.mark.parametrize("text", ["\ud800", float("nan"), object()])
def test_what_cannot_be_sent_is_terminal_and_never_reaches_the_server(text: object) -> None:
    request = ModelRequest("m", 100, [{"role": "user", "content": [{"type": "text", "text": text}]}])
    with raw_server() as server:
        with pytest.raises(LlmError) as raised:
            _ask(server, request)
        assert server.requests == []
    assert (raised.value.code, raised.value.transient) == ("invalid_request", False)


@pytest.mark.parametrize(
    ("api_key", "base_url"),
    [("", "http://x"), ("key\n", "http://x"), ("k\u00e9y", "http://x"), ("a b", "http://x"), ("key", "example.org")],
)
def test_a_key_or_url_that_cannot_work_is_refused_at_once(api_key: str, base_url: str) -> None:
    with pytest.raises(ConfigError):
        AnthropicClient(api_key, base_url)


@pytest.mark.filterwarnings("error")
def test_the_content_is_kept_as_received() -> None:
    events = [
        message_start(),
        *block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "sig"}
        ),
        *block(1, {"type": "never_heard_of", "zeta": 1, "alpha": None}),
        *text_block(2, "a\x00", "é😀"),
        *block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "novel": [1]},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"z": 11805916207174113'},
            {"type": "input_json_delta", "partial_json": '03424, "a": "\\u0000"}'},
        ),
        message_delta("tool_use", 40),
        MESSAGE_STOP,
    ]
    with raw_server(streaming(*events, request_id="req_1")) as server:
        response = _ask(server)
    assert json.loads(response.content) == [
        {"type": "thinking", "thinking": "", "signature": "sig"},
        {"type": "never_heard_of", "zeta": 1, "alpha": None},
        {"type": "text", "text": "a\x00é😀"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"z": 2**70, "a": "\x00"}, "novel": [1]},
    ]
    assert '{"z":1180591620717411303424,"a":"\\u0000"}' in response.content
    assert (response.stop_reason, response.model) == ("tool_use", "claude-sonnet-5-5")
    assert (response.message_id, response.request_id, response.tries) == ("msg_01", "req_1", 1)


def test_usage_is_the_last_running_total_with_the_cache_split_of_the_start() -> None:
    split = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}
    events = [
        message_start(cache_creation_input_tokens=100, cache_read_input_tokens=5, cache_creation=split),
        *text_block(0, "Hi."),
        message_delta(None, 6),
        message_delta("end_turn", 12, input_tokens=31),
        MESSAGE_STOP,
    ]
    with raw_server(streaming(*events)) as server:
        usage = _ask(server).usage
    assert usage == Usage(31, 12, cache_write_tokens=100, cache_read_tokens=5, cache_write_1h_tokens=70)


def test_pings_and_unknown_events_are_passed_over() -> None:
    def script(peer: Peer) -> None:
        peer.open_stream()
        peer.chunk(PING)
        peer.events({"type": "never_heard_of", "x": 1}, message_start(), {"type": "never_heard_of", "x": 1})
        peer.chunk(PING)
        peer.events(*text_block(0, "Hi."), message_delta(), MESSAGE_STOP)
        peer.end_stream()

    with raw_server(script) as server:
        assert json.loads(_ask(server).content) == [{"type": "text", "text": "Hi."}]


def test_an_answer_that_is_whole_counts_even_if_the_connection_breaks_after_it() -> None:
    with raw_server(streaming(*whole(), end=False)) as server:
        assert _ask(server).stop_reason == "end_turn"


def test_many_threads_share_one_client_and_its_connections() -> None:
    with raw_server(*[streaming(*whole())] * 40) as server:
        client = AnthropicClient("key", server.url)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.complete(REQUEST, Cutoff()), range(40)))
        client.close()
        assert len(answers) == len(server.requests) == 40
        assert max(seen.connection for seen in server.requests) <= 8
