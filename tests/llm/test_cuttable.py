"""A cut ends a call at once, in whatever phase it is, and never harms another call.

No server here ever answers a call that is to be cut, and no time limit is shorter than the test's own: only the cut can
end the call.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from app.domain.errors import CallCut
from app.domain.usage import Usage
from app.llm.anthropic_client import AnthropicClient
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from tests.support.raw_server import Peer, Script, raw_server
from tests.support.stream_events import message_delta, message_start, text_block, whole

pytestmark = pytest.mark.timeout(40)

REQUEST = ModelRequest("m", 100, [{"role": "user", "content": "go"}])


def _client(url: str) -> AnthropicClient:
    return AnthropicClient("key", url, read_timeout_s=600, connect_timeout_s=600)


@contextmanager
def _calling(
    client: AnthropicClient, cutoff: Cutoff, request: ModelRequest = REQUEST
) -> Iterator[Future[ModelResponse]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(client.complete, request, cutoff)
    client.close()


def _cut(call: Future[ModelResponse], cutoff: Cutoff) -> CallCut:
    cutoff.cut("lease_lost")
    error = call.exception(timeout=30)
    assert isinstance(error, CallCut)
    assert error.reason == "lease_lost"
    return error


def _answer(peer: Peer) -> None:
    peer.open_stream()
    peer.events(*whole())
    peer.end_stream()


def _begun_then(go_on: Callable[[Peer], None], read: threading.Event) -> Script:
    def script(peer: Peer) -> None:
        peer.open_stream()
        peer.events(message_start(), *text_block(0, "half"), message_delta(None, 7))
        peer.push_through()
        read.set()
        go_on(peer)

    return script


def test_before_the_response_headers() -> None:
    cutoff = Cutoff()
    with raw_server(Peer.hang) as server, _calling(_client(server.url), cutoff) as call:
        server.arrived.get(timeout=30)
        assert _cut(call, cutoff).usage == Usage()


@pytest.mark.parametrize("go_on", [Peer.hang, Peer.drip, Peer.flood], ids=["silent", "dripping", "flooding"])
def test_in_the_stream_with_the_usage_that_it_had_told(go_on: Callable[[Peer], None]) -> None:
    cutoff, read = Cutoff(), threading.Event()
    with raw_server(_begun_then(go_on, read)) as server, _calling(_client(server.url), cutoff) as call:
        assert read.wait(30)
        assert _cut(call, cutoff).usage == Usage(30, 7)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_while_the_server_does_not_even_read(scheme: str) -> None:
    """Over http the upload is stuck, over https the handshake."""
    cutoff = Cutoff()
    request = ModelRequest("m", 100, [{"role": "user", "content": "x" * 30_000_000}])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with _calling(_client(url), cutoff, request) as call:
            sock, _ = listener.accept()
            with sock:
                assert sock.recv(1)
                _cut(call, cutoff)


def test_on_a_connection_that_served_a_call_before() -> None:
    cutoff = Cutoff()
    with raw_server(_answer, Peer.hang) as server:
        client = _client(server.url)
        client.complete(REQUEST, Cutoff())
        with _calling(client, cutoff) as call:
            server.arrived.get(timeout=30)
            server.arrived.get(timeout=30)
            _cut(call, cutoff)
        assert [seen.connection for seen in server.requests] == [1, 1]


def test_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    cutoff = Cutoff()
    with raw_server(Peer.hang) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with _calling(_client("http://nowhere.invalid"), cutoff) as call:
            proxy.arrived.get(timeout=30)
            _cut(call, cutoff)


def test_a_late_cut_does_not_harm_the_call_that_has_the_connection_now() -> None:
    go_on = threading.Event()

    def when_told(peer: Peer) -> None:
        assert go_on.wait(30)
        _answer(peer)

    first, second = _StickyCutoff(), Cutoff()
    with raw_server(_answer, when_told) as server:
        client = _client(server.url)
        client.complete(REQUEST, first)
        with _calling(client, second) as call:
            server.arrived.get(timeout=30)
            server.arrived.get(timeout=30)
            first.cut("stopped")
            go_on.set()
            assert call.result(timeout=30).stop_reason == "end_turn"
        assert [seen.connection for seen in server.requests] == [1, 1]


class _StickyCutoff(Cutoff):
    """Forgets nothing: the cut that had already begun when the call ended."""

    def _forget(self, abort: Callable[[], None]) -> None:
        pass


def test_a_call_cut_beforehand_sends_nothing() -> None:
    cutoff = Cutoff()
    cutoff.cut("stopped")
    with raw_server() as server:
        with pytest.raises(CallCut, match="stopped") as raised:
            _client(server.url).complete(REQUEST, cutoff)
        assert server.requests == []
    assert raised.value.__cause__ is None  # not even a connection that had to be shut


def test_a_call_cut_once_it_is_over_stays_answered_and_a_finished_one_leaves_nothing_to_cut() -> None:
    cutoff = _CountingCutoff()
    with raw_server(_answer) as server:
        client = _client(server.url)
        assert client.complete(REQUEST, cutoff).stop_reason == "end_turn"
        client.close()
    assert (cutoff.added, cutoff.forgotten) == (1, 1)


class _CountingCutoff(Cutoff):
    def __init__(self) -> None:
        super().__init__()
        self.added = self.forgotten = 0

    def on_cut(self, abort: Callable[[], None]) -> Callable[[], None]:
        self.added += 1
        return super().on_cut(abort)

    def _forget(self, abort: Callable[[], None]) -> None:
        self.forgotten += 1
        super()._forget(abort)
