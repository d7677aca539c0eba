"""The soft time limit, with real alarms. Limits are either short and sure to pass, or long and sure not to."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.domain.errors import ToolError, ToolTimeout
from app.tools.time_limit import time_limit

LONG_S = 60.0


@pytest.fixture(autouse=True)
def rung() -> Iterator[list[int]]:
    """An outer handler that notes its alarms, and no timer; the test runner's own come back afterwards."""
    alarms: list[int] = []
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, lambda signum, frame: alarms.append(signum))
    yield alarms
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left_s)


def _left_s() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0]


def _hang() -> str:
    threading.Event().wait(30)
    return "never"


def _whole_after(seconds: float) -> str:
    time.sleep(seconds)
    return "whole"


def test_work_within_its_limit_gives_its_value() -> None:
    before = signal.getsignal(signal.SIGALRM)
    assert time_limit(LONG_S, lambda: ["value"]) == ["value"]
    assert signal.getsignal(signal.SIGALRM) is before
    assert _left_s() == 0.0


def test_work_past_its_limit_is_interrupted_where_it_is() -> None:
    seen: list[BaseException] = []

    def work() -> None:
        try:
            _hang()
        except BaseException as error:
            seen.append(error)
            raise

    with pytest.raises(ToolTimeout, match=r"^timed out: the tool did not return within 0\.02 s$") as caught:
        time_limit(0.02, work)
    assert seen == [caught.value]
    assert isinstance(caught.value, ToolError)


def test_a_busy_loop_is_interrupted_too() -> None:
    def work() -> None:
        while True:
            pass

    with pytest.raises(ToolTimeout):
        time_limit(0.02, work)


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_no_seconds_left_is_a_limit_and_not_none(seconds: float) -> None:
    """A timer that is set to 0 never goes off."""
    with pytest.raises(ToolTimeout):
        time_limit(seconds, _hang)


def _fail() -> str:
    raise ZeroDivisionError


def _exit() -> str:
    raise SystemExit


@pytest.mark.parametrize(
    ("seconds", "work", "raised"),
    [(LONG_S, _fail, ZeroDivisionError), (LONG_S, _exit, SystemExit), (0.02, _hang, ToolTimeout)],
)
def test_handler_and_timer_are_as_before_whatever_is_raised(
    seconds: float, work: Callable[[], str], raised: type[BaseException], rung: list[int]
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(raised):
        time_limit(seconds, work)
    assert signal.getsignal(signal.SIGALRM) is before
    assert (_left_s(), rung) == (0.0, [])


def test_a_timer_that_ran_before_runs_on_with_what_it_has_left() -> None:
    signal.setitimer(signal.ITIMER_REAL, 500.0)

    def work() -> float:
        time.sleep(0.05)
        return _left_s()

    assert 0.0 < time_limit(LONG_S, work) <= LONG_S
    assert 400.0 < _left_s() <= 499.95


def test_a_timer_that_would_have_gone_off_meanwhile_goes_off_right_after(rung: list[int]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)

    def work() -> list[int]:
        time.sleep(0.05)
        return list(rung)

    assert time_limit(LONG_S, work) == []
    deadline = time.monotonic() + 10
    while not rung and time.monotonic() < deadline:
        time.sleep(0.01)
    assert rung == [signal.SIGALRM]


def test_an_inner_limit_ends_the_inner_work_only() -> None:
    def outer() -> str:
        with pytest.raises(ToolTimeout, match=r"within 0\.02 s"):
            time_limit(0.02, _hang)
        assert LONG_S - 30 < _left_s() <= LONG_S
        return "went on"

    assert time_limit(LONG_S, outer) == "went on"


def test_an_outer_limit_still_holds_after_an_inner_one() -> None:
    def outer() -> None:
        assert time_limit(LONG_S, lambda: "inner") == "inner"
        _hang()

    with pytest.raises(ToolTimeout, match=r"within 0\.1 s"):
        time_limit(0.1, outer)


def test_an_outer_limit_that_passes_during_an_inner_one_ends_the_outer_work() -> None:
    inner: list[str] = []

    def outer() -> None:
        inner.append(time_limit(LONG_S, lambda: _whole_after(0.1)))
        _hang()

    with pytest.raises(ToolTimeout, match=r"within 0\.02 s"):
        time_limit(0.02, outer)
    assert inner == ["whole"]


def test_other_threads_have_no_limit_and_touch_no_signal() -> None:
    """Signals are the main thread's: an alarm set from another thread would go off in whatever the main one does."""
    before = signal.getsignal(signal.SIGALRM)

    def work() -> tuple[Any, float]:
        return signal.getsignal(signal.SIGALRM), _left_s()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(time_limit, 0.0, work).result(10) == (before, 0.0)
        assert pool.submit(time_limit, 0.0, lambda: _whole_after(0.05)).result(10) == "whole"


# One instruction that takes far longer than the least limit. Python hands an alarm on between instructions, so the one
# that goes off meanwhile is handed on when the work has already returned: the moment at which a result could be lost.
_ZEROS = [0] * 2_000_000


def _ends_with_the_alarm() -> bool:
    return 0.5 in _ZEROS


def _fails_with_the_alarm() -> None:
    error = ZeroDivisionError()
    if 0.5 not in _ZEROS:
        raise error


def test_an_alarm_at_the_very_end_does_not_replace_the_result(rung: list[int]) -> None:
    for _ in range(5):
        assert time_limit(0.0, _ends_with_the_alarm) is False
        assert _left_s() == 0.0
    assert rung == []


def test_an_alarm_at_the_very_end_does_not_replace_the_failure(rung: list[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        time_limit(0.0, _fails_with_the_alarm)
    assert _left_s() == 0.0
    assert rung == []


def test_that_alarm_had_gone_off_indeed() -> None:
    """The two tests above say something only if the alarm comes before the end of the work."""

    def goes_on() -> None:
        assert 0.5 not in _ZEROS
        list(map(str, range(3)))

    with pytest.raises(ToolTimeout):
        time_limit(0.0, goes_on)
