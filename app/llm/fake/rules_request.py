"""Rules about the request's own fields: which there are, their types, and the cache breakpoints of the whole."""

from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]

REQUIRED = ("model", "max_tokens", "messages")
_STRING, _INTEGER, _LIST = "a valid string", "a valid integer", "a valid list"
_BOOLEAN, _DICT = "a valid boolean", "a valid dictionary"
# The fields of the stable API (the SDK's `messages.create`); the beta's own fields are refused as the API does.
FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "model": ((str,), _STRING),
    "max_tokens": ((int,), _INTEGER),
    "messages": ((list,), _LIST),
    "cache_control": ((dict, type(None)), _DICT),
    "container": ((str, dict, type(None)), _STRING),
    "diagnostics": ((dict, type(None)), _DICT),
    "inference_geo": ((str, type(None)), _STRING),
    "metadata": ((dict,), _DICT),
    "output_config": ((dict,), _DICT),
    "service_tier": ((str,), _STRING),
    "speed": ((str, type(None)), _STRING),
    "stop_sequences": ((list,), _LIST),
    "stream": ((bool,), _BOOLEAN),
    "system": ((str, list), _LIST),
    "thinking": ((dict,), _DICT),
    "tool_choice": ((dict,), _DICT),
    "tools": ((list,), _LIST),
}
MAX_BREAKPOINTS = 4


def no_extra_fields(body: Body) -> str | None:
    """Unknown fields; temperature, top_p and top_k are among them since API version 2026-10-21."""
    return next((f"{name}: Extra inputs are not permitted" for name in body if name not in FIELDS), None)


def required_fields(body: Body) -> str | None:
    """model, max_tokens and messages must be there."""
    return next((f"{name}: Field required" for name in REQUIRED if name not in body), None)


def field_types(body: Body) -> str | None:
    """Each field has its type; in JSON true is no integer."""
    for name, value in body.items():
        types, noun = FIELDS[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return f"{name}: Input should be {noun}"
    return None


def max_tokens_is_positive(body: Body) -> str | None:
    """Room for at least one token of output."""
    return None if body["max_tokens"] >= 1 else "max_tokens: Input should be greater than or equal to 1"


def some_messages(body: Body) -> str | None:
    """A request without messages asks nothing."""
    return None if body["messages"] else "messages: at least one message is required"


def cache_control_shape(body: Body) -> str | None:
    """A mark is `{"type": "ephemeral"}`, with a ttl of 5m or 1h."""
    for mark in _breakpoints(body):
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            return "cache_control.type: Input should be 'ephemeral'"
        if mark.get("ttl", "5m") not in ("5m", "1h"):
            return "cache_control.ttl: Input should be '5m' or '1h'"
    return None


def few_breakpoints(body: Body) -> str | None:
    """At most four marks, the one at the top level included."""
    found = sum(1 for _ in _breakpoints(body))
    if found <= MAX_BREAKPOINTS:
        return None
    return f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."


def _breakpoints(body: Body) -> Iterator[Any]:
    for holder in (body, *body.get("tools", ()), *_blocks(body)):
        mark = holder.get("cache_control")
        if mark is not None:
            yield mark


def _blocks(body: Body) -> Iterator[Body]:
    contents = [body.get("system"), *(message["content"] for message in body["messages"])]
    for content in contents:
        for block in content if isinstance(content, list) else ():
            yield block
            inner = block.get("content")
            yield from (part for part in inner if isinstance(part, dict)) if isinstance(inner, list) else ()
