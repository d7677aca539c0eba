"""A turn made into the API's Message. Envelope and known blocks pass the SDK's own types, so that they cannot drift.

What is sent are the script's blocks themselves, field for field: unknown types and unknown fields arrive as written.
"""

import uuid
from typing import Any, get_args

import pydantic
from anthropic.types import Message, StopReason
from anthropic.types.content_block import ContentBlock

from app.llm.fake.tokens import estimate
from app.llm.fake.turn import Turn

_STOP_REASONS = frozenset(get_args(StopReason))
_BLOCK: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ContentBlock)
_KNOWN_BLOCKS = frozenset(
    get_args(block.model_fields["type"].annotation)[0] for block in get_args(get_args(ContentBlock)[0])
)


def check_turns(turns: list[Turn]) -> None:
    """Raise ValueError where a block of known type is not what the SDK says it is."""
    for turn in turns:
        for at, block in enumerate(turn.content):
            if block.get("type") not in _KNOWN_BLOCKS:
                continue
            try:
                _BLOCK.validate_python(block)
            except pydantic.ValidationError as error:
                raise ValueError(f"content {at} is no {block['type']} block: {_said_of(error, block)}") from error


def build_message(turn: Turn, model: str, prompt_usage: dict[str, Any]) -> dict[str, Any]:
    """The whole Message of a turn, as JSON.

    Args:
        turn: the content to send; anything that `check_turns` accepts.
        model: of the request.
        prompt_usage: the prompt's part of `usage`, used where the turn has none of its own.
    """
    stop_reason = turn.stops_for
    envelope = {
        "id": turn.id or f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": turn.model or model,
        "content": [],
        "stop_reason": stop_reason if stop_reason in _STOP_REASONS else "end_turn",
        "stop_sequence": turn.stop_sequence,
        "usage": _usage(turn, prompt_usage),
        **{name: value for name in ("stop_details", "container") if (value := getattr(turn, name)) is not None},
    }
    message = Message.model_validate(envelope).to_dict(mode="json")
    # A stop reason or block that this SDK does not know yet must reach the client all the same.
    return {**message, "content": turn.content, "stop_reason": stop_reason}


def _usage(turn: Turn, prompt_usage: dict[str, Any]) -> dict[str, Any]:
    if turn.usage is None:
        prompt = prompt_usage
    else:
        no_cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        prompt = {"input_tokens": prompt_usage["input_tokens"], **no_cache}
    return {**prompt, "output_tokens": estimate(turn.content), "service_tier": "standard", **(turn.usage or {})}


def _said_of(error: pydantic.ValidationError, block: dict[str, Any]) -> str:
    """The part of a union's complaints that is about this block's own type."""
    mine = [each for each in error.errors() if str(each["loc"][0]).lower().startswith(block["type"].replace("_", ""))]
    return "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in mine) or str(error)
