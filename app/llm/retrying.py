"""Tries again what may succeed later. Short waits are slept through, long ones handed back to be waited for durably."""

import random
import threading
from collections.abc import Callable
from dataclasses import replace

from app.domain.backoff import wait_s
from app.domain.errors import AgentError, CallCut, LlmError
from app.domain.usage import Usage
from app.llm.client import Cutoff, ModelClient, ModelRequest, ModelResponse


class Postpone(AgentError):
    """The next try is due later than one may sleep for.

    Args:
        wait_s: how long to wait, in seconds.
        error: what the last try ran into.
        tries: requests made by this call of `complete`.
        waste: what they were billed; estimated.
    """

    def __init__(self, wait_s: float, error: LlmError, tries: int, waste: Usage) -> None:
        super().__init__(f"next try in {wait_s:.1f} s: {error}")
        self.wait_s = wait_s
        self.error = error
        self.tries = tries
        self.waste = waste


class Retrying:
    """Asks `client` until it answers, refuses for good, or the tries are used up.

    Args:
        max_tries: requests over the step's whole life; each call of `complete` makes at least one.
        base_s, cap_s: of the full jitter, in seconds; the server's `retry-after` is always waited for in full.
        inline_max_s: longer waits raise Postpone; None sleeps through any.
        sleep: called with seconds; None sleeps so that a cut ends it.
        rand: a number in [0, 1).
    """

    def __init__(
        self,
        client: ModelClient,
        *,
        max_tries: int,
        base_s: float = 0.5,
        cap_s: float = 30.0,
        inline_max_s: float | None = None,
        sleep: Callable[[float], object] | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._max_tries = max_tries
        self._base_s = base_s
        self._cap_s = cap_s
        self._inline_max_s = inline_max_s
        self._sleep = sleep
        self._rand = rand

    def complete(self, request: ModelRequest, cutoff: Cutoff, tries_before: int = 0) -> ModelResponse:
        """The answer, with all tries and their waste counted in.

        Args:
            request: as in `ModelClient`.
            cutoff: as in `ModelClient`; it also ends a sleep.
            tries_before: requests that earlier claims of the step made.

        Raises:
            LlmError, CallCut: with `tries` and `waste` of this call.
            Postpone: see there.
        """
        tries, waste = 0, Usage()
        while True:
            tries += 1
            try:
                response = self._client.complete(request, cutoff)
                return replace(response, tries=tries, waste=waste)
            except (LlmError, CallCut) as error:
                waste += error.usage
                error.tries, error.waste = tries, waste
                if isinstance(error, CallCut) or not error.transient or tries_before + tries >= self._max_tries:
                    raise
                self._wait(error, cutoff, tries_before + tries)

    def _wait(self, error: LlmError, cutoff: Cutoff, tries: int) -> None:
        pause_s = wait_s(error, tries, base_s=self._base_s, cap_s=self._cap_s, fraction=self._rand())
        if cutoff.reason is None:
            if self._inline_max_s is not None and pause_s > self._inline_max_s:
                raise Postpone(pause_s, error, error.tries, error.waste) from error
            self._rest(pause_s, cutoff)
        if cutoff.reason is not None:
            cut = CallCut(cutoff.reason)
            cut.tries, cut.waste = error.tries, error.waste
            raise cut from error

    def _rest(self, pause_s: float, cutoff: Cutoff) -> None:
        if self._sleep is not None:
            self._sleep(pause_s)
            return
        cut = threading.Event()
        forget = cutoff.on_cut(cut.set)
        cut.wait(pause_s)
        forget()
