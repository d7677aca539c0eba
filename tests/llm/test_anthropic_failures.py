"""Anthropic's SDK against a server that fails in every way: what each failure becomes."""

from typing import Any

import pytest

from app.domain.errors import LlmError
from app.domain.usage import Usage
from app.llm.anthropic_client import AnthropicClient
from app.llm.client import Cutoff, ModelRequest
from tests.support.raw_server import Peer, Script, raw_server
from tests.support.stream_events import (
    MESSAGE_STOP,
    Event,
    message_delta,
    message_start,
    refusing,
    streaming,
    text_block,
)

pytestmark = pytest.mark.timeout(60)

REQUEST = ModelRequest("m", 100, [{"role": "user", "content": "go"}])


def _error(type_: str, message: str = "m", **details: str) -> dict[str, Any]:
    error = {"type": type_, "message": message, **({"details": details} if details else {})}
    return {"type": "error", "error": error}


def _failing(script: Script, **options: Any) -> LlmError:
    with raw_server(script) as server:
        client = AnthropicClient("key", server.url, **options)
        with pytest.raises(LlmError) as raised:
            client.complete(REQUEST, Cutoff())
        client.close()
        assert len(server.requests) == 1
    return raised.value


BEGUN = [message_start(), *text_block(0, "half")]


@pytest.mark.parametrize(
    "events",
    [
        [],
        BEGUN,
        [*BEGUN, message_delta("end_turn", 12)],
        [*BEGUN, message_delta(None, 12), MESSAGE_STOP],
    ],
    ids=["nothing", "half", "no message_stop", "no stop reason"],
)
def test_a_stream_that_ends_cleanly_but_early_is_cut(events: list[Event]) -> None:
    error = _failing(streaming(*events, request_id="req_1"))
    assert (error.code, error.transient, error.status, error.request_id) == ("stream_cut", True, None, "req_1")


def test_a_broken_stream_tells_what_it_had_billed() -> None:
    error = _failing(streaming(*BEGUN, message_delta(None, 7), end=False))
    assert (error.code, error.transient, error.usage) == ("stream_cut", True, Usage(30, 7))


@pytest.mark.parametrize(
    "bad",
    [
        b"event: message_delta\ndata: {nonsense\n\n",
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":9}\n\n',
    ],
)
def test_a_stream_that_cannot_be_read_is_cut_and_not_our_fault(bad: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.open_stream()
        peer.events(*BEGUN)
        peer.chunk(bad)
        peer.end_stream()

    error = _failing(script)
    assert (error.code, error.transient, error.usage) == ("stream_cut", True, Usage(30, 1))


@pytest.mark.parametrize(
    ("type_", "transient"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
    ],
)
def test_an_error_event_in_the_stream_is_judged_by_its_type(type_: str, transient: bool) -> None:
    error = _failing(streaming(*BEGUN, _error(type_)))
    assert (error.code, error.transient, error.usage) == (type_, transient, Usage(30, 1))


@pytest.mark.parametrize(
    ("status", "type_", "transient"),
    [
        (400, "invalid_request_error", False),
        (401, "authentication_error", False),
        (402, "billing_error", False),
        (403, "permission_error", False),
        (404, "not_found_error", False),
        (409, "conflict_error", True),
        (413, "request_too_large", False),
        (429, "rate_limit_error", True),
        (500, "api_error", True),
        (504, "timeout_error", True),
        (529, "overloaded_error", True),
    ],
)
def test_a_refusal_is_judged_by_its_status_and_asked_for_once(status: int, type_: str, transient: bool) -> None:
    error = _failing(refusing(status, _error(type_, "because"), request_id="req_1", retry_after="7"))
    assert (error.status, error.code, error.transient) == (status, type_, transient)
    assert (error.request_id, error.retry_after_s) == ("req_1", 7.0)
    assert str(error) == f"{type_} (HTTP {status}): because"


def test_a_spend_limit_is_terminal_under_its_own_name() -> None:
    body = _error("rate_limit_error", error_code="enforced_spend_limit_reached")
    error = _failing(refusing(429, body, x_should_retry="true"))
    assert (error.code, error.transient) == ("enforced_spend_limit_reached", False)


def test_a_page_of_html_is_named_by_its_status() -> None:
    error = _failing(refusing(502, "<html>" + "x" * 9000, content_type="text/html"))
    assert (error.code, error.transient, error.status) == ("http_502", True, 502)
    assert len(str(error)) < 600


@pytest.mark.parametrize(
    "body", [[], "null", {"error": "text"}, {"error": {"type": 7, "details": [1]}}, {"error": None}]
)
def test_a_refusal_of_any_shape_is_still_judged(body: Any) -> None:
    error = _failing(refusing(503, body))
    assert (error.code, error.transient) == ("http_503", True)


def test_x_should_retry_is_obeyed() -> None:
    assert not _failing(refusing(500, _error("api_error"), x_should_retry="false")).transient


def test_a_server_that_hangs_up_without_a_word_is_a_connection_error() -> None:
    error = _failing(lambda peer: peer.drop())
    assert (error.code, error.transient, error.status, error.usage) == ("connection_error", True, None, Usage())


def test_nobody_listening_is_a_connection_error() -> None:
    with raw_server() as server:
        url = server.url
    client = AnthropicClient("key", url)
    with pytest.raises(LlmError) as raised:
        client.complete(REQUEST, Cutoff())
    assert (raised.value.code, raised.value.transient) == ("connection_error", True)


def test_silence_before_the_headers_and_in_the_stream_is_a_timeout() -> None:
    def in_the_stream(peer: Peer) -> None:
        peer.open_stream()
        peer.events(*BEGUN)
        peer.hang()

    before = _failing(lambda peer: peer.hang(), read_timeout_s=0.2)
    within = _failing(in_the_stream, read_timeout_s=0.2)
    assert (before.code, before.transient, before.usage) == ("timeout_error", True, Usage())
    assert (within.code, within.transient, within.usage) == ("timeout_error", True, Usage(30, 1))
