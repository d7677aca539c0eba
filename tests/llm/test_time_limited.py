"""The total limit of one request."""

import threading

import pytest

from app.domain.errors import CallCut, LlmError
from app.domain.usage import Usage
from app.llm.anthropic_client import AnthropicClient
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.scripted import ScriptedModel
from app.llm.time_limited import TimeLimited
from tests.support.raw_server import Peer, raw_server

REQUEST = ModelRequest("some-model", 100, [{"role": "user", "content": "go"}])

pytestmark = pytest.mark.timeout(30)


def _until_cut(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
    cut = threading.Event()
    cutoff.on_cut(cut.set)
    cut.wait()
    assert cutoff.reason is not None
    raise CallCut(cutoff.reason, Usage(30, 4))


def test_a_call_past_the_limit_is_a_transient_timeout_with_what_it_was_billed() -> None:
    with pytest.raises(LlmError) as raised:
        TimeLimited(ScriptedModel().then_call(_until_cut), 0.01).complete(REQUEST, Cutoff())
    error = raised.value
    assert (error.transient, error.code, error.usage) == (True, "timeout_error", Usage(30, 4))


@pytest.mark.parametrize("reason", ["stopped", "lease_lost", "deadline"])
def test_a_cut_from_outside_keeps_its_reason(reason: str) -> None:
    outer = Cutoff()

    def cut_meanwhile(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        outer.cut(reason)
        return _until_cut(request, cutoff)

    with pytest.raises(CallCut) as raised:
        TimeLimited(ScriptedModel().then_call(cut_meanwhile), 3600).complete(REQUEST, outer)
    assert (raised.value.reason, raised.value.usage) == (reason, Usage(30, 4))


def test_the_limit_does_not_cut_the_outer_cutoff() -> None:
    outer = Cutoff()
    with pytest.raises(LlmError):
        TimeLimited(ScriptedModel().then_call(_until_cut), 0.01).complete(REQUEST, outer)
    assert outer.reason is None


def test_pings_do_not_put_the_limit_off() -> None:
    def ping_for_ever(peer: Peer) -> None:
        peer.open_stream()
        peer.drip()

    with raw_server(ping_for_ever) as server:
        client = AnthropicClient("key", server.url)
        with pytest.raises(LlmError) as raised:
            TimeLimited(client, 0.3).complete(REQUEST, Cutoff())
        client.close()
    assert raised.value.code == "timeout_error"


def test_every_call_gets_the_whole_limit_anew() -> None:
    limited = TimeLimited(ScriptedModel().then_call(_until_cut).then_text("done"), 0.01)
    with pytest.raises(LlmError):
        limited.complete(REQUEST, Cutoff())
    assert limited.complete(REQUEST, Cutoff()).stop_reason == "end_turn"


def test_nothing_is_left_over_after_a_call() -> None:
    outer = Cutoff()
    seen: list[Cutoff] = []

    def note(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        seen.append(cutoff)
        assert any(isinstance(thread, threading.Timer) for thread in threading.enumerate())
        return ScriptedModel().then_text("done").complete(request, cutoff)

    TimeLimited(ScriptedModel().then_call(note), 3600).complete(REQUEST, outer)
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    outer.cut("stopped")
    assert seen[0].reason is None
