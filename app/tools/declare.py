"""Declaring a tool: `@tool(effect=...)` over a typed function.

Rules: the docstring is the description, the signature is the schema, and the effect has no default, because only
the author knows what happens when a call is repeated. All mistakes show at import, as ConfigError.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from app.domain.agent import APPROVALS, ToolDefinition
from app.domain.effect import Effect
from app.domain.errors import ConfigError
from app.tools.call import ToolCall
from app.tools.schema import Signature

P = ParamSpec("P")
R = TypeVar("R")
#: Asked, under the same key, what became of an attempt whose claim lapsed.
Verify = Callable[[ToolCall], object]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_QUEUE = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_EFFECTS = (
    "READ (repeat freely), KEYED (repeat with the same idempotency key), "
    "VERIFIED (its own verify says what happened) or UNSAFE (never repeat)"
)


class Tool(Generic[P, R]):
    """A declared tool. Called like a function it is the function.

    Attributes:
        definition: what the model sees, and the rules under which the runtime runs it.
        verify: only of VERIFIED tools.
    """

    def __init__(
        self, function: Callable[P, R], definition: ToolDefinition, signature: Signature, verify: Verify | None
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._signature = signature
        self.definition = definition
        self.verify = verify

    @property
    def name(self) -> str:
        """The name that the model uses."""
        return self.definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The plain function."""
        return self._function(*args, **kwargs)

    def invoke(self, arguments: object, call: ToolCall) -> R:
        """Run it for the model.

        Args:
            arguments: what the model sent, as parsed from its JSON; anything may come.
            call: the context, for the parameter that asks for it.

        Raises:
            BadArguments: they do not fit; the function did not run.
            BaseException: whatever the function raises.
        """
        values = self._signature.read(arguments)
        run: Callable[..., R] = self._function
        return run(**values, **self._signature.with_call(call))

    def __repr__(self) -> str:
        return f"<Tool {self.name} {self.definition.effect}>"


def tool(
    function: object = None,
    /,
    *,
    effect: Effect | str | None = None,
    timeout_s: float = 60.0,
    queue: str = "tool",
    approval: str = "never",
    name: str | None = None,
    verify: Verify | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a function or a bound method as a tool.

    Args:
        function: never given; it is here to catch a bare `@tool`.
        effect: READ, KEYED, VERIFIED or UNSAFE; required.
        timeout_s: soft limit of one call, in seconds.
        queue: where its steps go; a worker must serve it.
        approval: `never`, or `always`: a person agrees to each call first.
        name: the model's name for it; the function's own name when left out.
        verify: for VERIFIED only, and required there.

    Raises:
        ConfigError: the declaration is wrong; the sentence says which part.
    """
    if function is not None:
        raise ConfigError(f"write @tool(effect=...) with an effect: {_EFFECTS}")

    def declare(function: Callable[P, R]) -> Tool[P, R]:
        chosen = _checked_name(function, name)
        kind = _checked_effect(chosen, effect, verify)
        _check_rules(chosen, timeout_s, queue, approval)
        signature = Signature(function, chosen)
        definition = ToolDefinition(
            name=chosen,
            description=signature.description,
            input_schema=signature.schema,
            effect=kind,
            queue=queue,
            timeout_s=float(timeout_s),
            approval=approval,
        )
        return Tool(function, definition, signature, verify)

    return declare


def _checked_name(function: Any, name: str | None) -> str:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise ConfigError(f"@tool goes over a function or a bound method, not over {type(function).__name__}")
    chosen = function.__name__ if name is None else name
    if not _NAME.fullmatch(chosen):
        raise ConfigError(f"tool name {chosen!r}: 1 to 64 of the characters a-z A-Z 0-9 _ -")
    _check_plain(chosen, function)
    return chosen


def _check_plain(name: str, function: Any) -> None:
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigError(f"tool {name} is async: a tool runs in a worker's own process, write it as a plain function")
    if inspect.isgeneratorfunction(inner):
        raise ConfigError(f"tool {name} yields: a tool returns its result once")


def _checked_effect(name: str, effect: Effect | str | None, verify: Verify | None) -> Effect:
    if effect not in tuple(Effect):
        said = "declares no effect" if effect is None else f"has no effect {effect!r}"
        raise ConfigError(f"tool {name} {said}: choose {_EFFECTS}")
    kind = Effect(effect)
    if kind is Effect.VERIFIED and not callable(verify):
        raise ConfigError(f"tool {name} is VERIFIED: give verify=, a function of the call that says what happened")
    if kind is not Effect.VERIFIED and verify is not None:
        raise ConfigError(f"tool {name} is {kind}: verify= belongs to VERIFIED tools only")
    return kind


def _check_rules(name: str, timeout_s: float, queue: str, approval: str) -> None:
    if not 0 < timeout_s < float("inf"):
        raise ConfigError(f"tool {name}: timeout_s is a number of seconds above 0, not {timeout_s!r}")
    if not _QUEUE.fullmatch(queue):
        raise ConfigError(f"tool {name}: queue {queue!r}: 1 to 64 of the characters a-z A-Z 0-9 _ . -")
    if approval not in APPROVALS:
        raise ConfigError(f"tool {name}: approval is {' or '.join(APPROVALS)}, not {approval!r}")
