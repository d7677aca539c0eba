"""The protocol between the engine and a model: one request, one whole answer, and a way to cut the call short."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of the Messages API, as Anthropic's own field names have it.

    Attributes:
        messages: alternating user and assistant messages, as `replay` builds them.
        tools: the `tools` list as frozen with the run.
        thinking, effort: None leaves the model's default.
    """

    model: str
    max_tokens: int
    messages: list[dict[str, Any]]
    system: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinking: dict[str, Any] | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """One whole answer: `message_stop` was seen.

    Attributes:
        content: the content blocks as received, JSON text.
        model: the model that answered, by its own word.
        tries: requests that this answer took, broken ones included.
        waste: usage of the broken ones; estimated.
        latency_ms: of the request that succeeded.
    """

    content: str
    stop_reason: str | None
    model: str
    usage: Usage
    message_id: str | None = None
    request_id: str | None = None
    tries: int = 1
    waste: Usage = field(default_factory=Usage)
    latency_ms: int = 0


class Cutoff:
    """Ends a call from another thread. The first reason wins; aborters run at most once, in the cutting thread.

    A blocked socket read wakes only when the socket is shut, so whoever blocks registers how to wake it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._aborters: list[Callable[[], None]] = []

    @property
    def reason(self) -> str | None:
        """Why the call was cut; None while it may go on."""
        return self._reason

    def cut(self, reason: str) -> None:
        """End the call. Safe from any thread, and more than once."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            aborters, self._aborters = self._aborters, []
        for abort in aborters:
            abort()

    def on_cut(self, abort: Callable[[], None]) -> Callable[[], None]:
        """Call `abort` when the call is cut, at once if it already was. Returns what forgets it again."""
        with self._lock:
            if self._reason is None:
                self._aborters.append(abort)
                return lambda: self._forget(abort)
        abort()
        return lambda: None

    def _forget(self, abort: Callable[[], None]) -> None:
        with self._lock:
            if abort in self._aborters:
                self._aborters.remove(abort)


class ModelClient(Protocol):
    """Anything that answers a request: `Retrying(TimeLimited(AnthropicClient))`, `ScriptedModel`."""

    def complete(self, request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        """Ask the model and wait for the whole answer.

        Raises:
            LlmError: the model could not be asked, or refused.
            CallCut: `cutoff` ended the call; its usage is what the stream had said so far.
            Postpone: only from `Retrying`: the wait is longer than it may sleep.
        """
        ...
