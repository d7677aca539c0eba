"""What happens when a tool call is repeated. Every tool declares one; there is no default."""

from enum import StrEnum


class Effect(StrEnum):
    """The declared effect of a tool."""

    READ = "READ"  # repeat freely
    KEYED = "KEYED"  # repeat with the same idempotency key
    VERIFIED = "VERIFIED"  # ask its own verify(call) what happened
    UNSAFE = "UNSAFE"  # never repeat: the step waits in doubt for a person


def may_repeat(effect: Effect | str | None) -> bool:
    """Whether a call whose claim lapsed may simply be started again (invariant I9); None: there is no such tool."""
    return effect in (None, Effect.READ, Effect.KEYED)
