"""When a request is made again, after how long, and what the caller learns of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.domain.errors import CallCut, LlmError
from app.domain.usage import Usage
from app.llm.anthropic_client import AnthropicClient
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.retrying import Postpone, Retrying
from app.llm.scripted import ScriptedModel
from app.llm.time_limited import TimeLimited
from tests.support.raw_server import raw_server
from tests.support.stream_events import refusing, streaming, whole

REQUEST = ModelRequest("some-model", 100, [{"role": "user", "content": "go"}])


def _busy(retry_after_s: float | None = None, usage: Usage | None = None) -> LlmError:
    return LlmError(
        "busy", transient=True, code="rate_limit_error", status=429, retry_after_s=retry_after_s, usage=usage
    )


def _refused() -> LlmError:
    return LlmError("no", transient=False, code="invalid_request_error", status=400)


def test_two_429_with_retry_after_then_success_is_two_full_waits_and_three_calls() -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_busy(7)).then_fail(_busy(7)).then_text("done")
    response = Retrying(model, max_tries=5, sleep=sleeps.append).complete(REQUEST, Cutoff())
    assert [seconds * 1000 >= 7000 for seconds in sleeps] == [True, True]
    assert model.calls == response.tries == 3


def test_the_same_over_http_through_all_layers() -> None:
    sleeps: list[float] = []
    busy = refusing(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, retry_after="7")
    with raw_server(busy, busy, streaming(*whole())) as server:
        client = AnthropicClient("key", server.url)
        model = Retrying(TimeLimited(client, 60), max_tries=5, sleep=sleeps.append)
        assert model.complete(REQUEST, Cutoff()).tries == 3
        client.close()
        assert [seconds * 1000 >= 7000 for seconds in sleeps] == [True, True]
        assert len(server.requests) == 3


def test_a_400_is_one_call() -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_refused())
    with pytest.raises(LlmError) as raised:
        Retrying(model, max_tries=5, sleep=sleeps.append).complete(REQUEST, Cutoff())
    assert (model.calls, sleeps, raised.value.tries) == (1, [], 1)


def test_waits_grow_with_full_jitter_up_to_the_cap() -> None:
    sleeps: list[float] = []
    model = ScriptedModel()
    for _ in range(6):
        model.then_fail(_busy())
    with pytest.raises(LlmError):
        Retrying(model, max_tries=6, base_s=1, cap_s=5, sleep=sleeps.append, rand=lambda: 0.5).complete(
            REQUEST, Cutoff()
        )
    assert sleeps == [0.5, 1.0, 2.0, 2.5, 2.5]


def test_tries_of_earlier_claims_count_and_the_waits_go_on_where_they_were() -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_busy()).then_fail(_busy())
    with pytest.raises(LlmError) as raised:
        Retrying(model, max_tries=4, base_s=1, sleep=sleeps.append, rand=lambda: 0.5).complete(REQUEST, Cutoff(), 2)
    assert (model.calls, raised.value.tries, sleeps) == (2, 2, [2.0])


def test_a_claim_makes_one_request_even_when_the_limit_was_lowered_below_the_tries_made() -> None:
    model = ScriptedModel().then_text("done")
    assert Retrying(model, max_tries=2).complete(REQUEST, Cutoff(), 9).tries == 1


def test_exhausted_tries_raise_the_last_error_with_all_waste() -> None:
    model = ScriptedModel().then_fail(_busy(usage=Usage(10, 1))).then_fail(_busy(usage=Usage(20, 2)))
    with pytest.raises(LlmError) as raised:
        Retrying(model, max_tries=2, sleep=lambda _: None).complete(REQUEST, Cutoff())
    error = raised.value
    assert (error.tries, error.waste, error.usage) == (2, Usage(30, 3), Usage(20, 2))


def test_the_waste_of_broken_tries_comes_with_the_answer_and_not_in_its_usage() -> None:
    model = ScriptedModel().then_fail(_busy(usage=Usage(10, 1))).then_text("done", 50, 5)
    response = Retrying(model, max_tries=2, sleep=lambda _: None).complete(REQUEST, Cutoff())
    assert (response.tries, response.waste, response.usage) == (2, Usage(10, 1), Usage(50, 5))


def test_a_wait_above_the_inline_limit_is_handed_back() -> None:
    sleeps: list[float] = []
    model = ScriptedModel().then_fail(_busy(1, Usage(3, 4))).then_fail(_busy(7, Usage(5, 6)))
    with pytest.raises(Postpone) as raised:
        Retrying(model, max_tries=5, inline_max_s=2, sleep=sleeps.append, rand=lambda: 0.0).complete(REQUEST, Cutoff())
    postpone = raised.value
    assert (postpone.wait_s, postpone.tries, postpone.waste, sleeps) == (7, 2, Usage(8, 10), [1])
    assert postpone.error.code == "rate_limit_error"


def test_the_last_try_is_never_postponed() -> None:
    model = ScriptedModel().then_fail(_busy(7))
    with pytest.raises(LlmError):
        Retrying(model, max_tries=3, inline_max_s=2).complete(REQUEST, Cutoff(), 2)


@pytest.mark.timeout(30)
def test_a_cut_ends_the_sleep_and_no_request_follows() -> None:
    model = ScriptedModel().then_fail(_busy(3600, Usage(3, 4)))
    cutoff = _WatchedCutoff()
    with cutoff.cutting_once_watched("deadline"), pytest.raises(CallCut, match="deadline") as raised:
        Retrying(model, max_tries=5).complete(REQUEST, cutoff)
    assert (model.calls, raised.value.tries, raised.value.waste) == (1, 1, Usage(3, 4))


def test_a_call_that_was_cut_while_it_failed_is_neither_postponed_nor_made_again() -> None:
    cutoff = Cutoff()

    def fail_late(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        cutoff.cut("stopped")
        raise _busy(7)

    model = ScriptedModel().then_call(fail_late)
    with pytest.raises(CallCut, match="stopped"):
        Retrying(model, max_tries=5, inline_max_s=2).complete(REQUEST, cutoff)


def test_a_cut_call_tells_the_waste_of_the_tries_before_it() -> None:
    model = ScriptedModel().then_fail(_busy(usage=Usage(10, 1))).then_fail(CallCut("stopped", Usage(20, 2)))
    with pytest.raises(CallCut) as raised:
        Retrying(model, max_tries=5, sleep=lambda _: None).complete(REQUEST, Cutoff())
    assert (raised.value.tries, raised.value.waste) == (2, Usage(30, 3))


class _WatchedCutoff(Cutoff):
    """Cuts as soon as somebody watches it, which is when the sleep has begun."""

    def __init__(self) -> None:
        super().__init__()
        self._watched = threading.Event()

    def on_cut(self, abort: Callable[[], None]) -> Callable[[], None]:
        forget = super().on_cut(abort)
        self._watched.set()
        return forget

    @contextmanager
    def cutting_once_watched(self, reason: str) -> Iterator[None]:
        thread = threading.Thread(target=self._cut_once_watched, args=(reason,))
        thread.start()
        yield
        thread.join()

    def _cut_once_watched(self, reason: str) -> None:
        self._watched.wait()
        self.cut(reason)
