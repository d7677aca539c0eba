"""How long to wait before the next try."""

from app.domain.errors import LlmError


def full_jitter_s(tries: int, *, base_s: float, cap_s: float, fraction: float) -> float:
    """Full jitter: a random share of an exponentially growing ceiling.

    Args:
        tries: tries made so far, from 1.
        base_s: ceiling after the first try, in seconds.
        cap_s: the ceiling's ceiling, in seconds.
        fraction: a random number in [0, 1).
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """
    exponent = min(tries - 1, 30)  # 2**30 s is past every cap; a larger power only risks an overflow
    return fraction * min(cap_s, base_s * 2.0**exponent)


def wait_s(error: LlmError, tries: int, *, base_s: float, cap_s: float, fraction: float) -> float:
    """The larger of jitter and what the server asked for, in seconds."""
    return max(full_jitter_s(tries, base_s=base_s, cap_s=cap_s, fraction=fraction), error.retry_after_s or 0.0)


def redispatch_s(dispatches: int, *, fraction: float) -> float:
    """When a dispatch counts as lost: 10 s, doubling to 60 s, spread by up to a quarter so that storms do not march."""
    return min(60.0, 10.0 * 2.0 ** min(max(dispatches - 1, 0), 4)) * (1.0 + 0.25 * fraction)
