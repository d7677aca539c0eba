"""How long to wait: always within its bounds, and spread."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.backoff import full_jitter_s, redispatch_s, wait_s
from app.domain.errors import LlmError

fractions = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 10**6), fractions)
def test_jitter_lies_below_its_doubling_ceiling_and_never_above_the_cap(tries: int, fraction: float) -> None:
    wait = full_jitter_s(tries, base_s=1.0, cap_s=60.0, fraction=fraction)
    assert 0 <= wait <= min(60.0, 2.0 ** min(max(tries - 1, 0), 30))


def test_the_ceiling_doubles_with_each_try() -> None:
    ceilings = [full_jitter_s(tries, base_s=1.0, cap_s=60.0, fraction=1.0) for tries in range(1, 9)]
    assert ceilings == [1, 2, 4, 8, 16, 32, 60, 60]


@given(st.integers(1, 20), st.none() | st.floats(0, 1000), fractions)
def test_the_wait_is_the_larger_of_jitter_and_what_the_server_asked_for(
    tries: int, asked: float | None, fraction: float
) -> None:
    error = LlmError("busy", transient=True, code="overloaded_error", retry_after_s=asked)
    jitter = full_jitter_s(tries, base_s=1.0, cap_s=60.0, fraction=fraction)
    wait = wait_s(error, tries, base_s=1.0, cap_s=60.0, fraction=fraction)
    assert wait == max(jitter, asked or 0.0)


@given(st.integers(0, 10**6), fractions)
def test_a_dispatch_counts_as_lost_after_ten_to_seventy_five_seconds(dispatches: int, fraction: float) -> None:
    assert 10.0 <= redispatch_s(dispatches, fraction=fraction) <= 75.0


def test_lost_dispatches_double_the_wait_to_a_minute() -> None:
    assert [redispatch_s(dispatches, fraction=0.0) for dispatches in range(6)] == [10, 10, 20, 40, 60, 60]
