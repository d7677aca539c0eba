"""The stream of a Message: Anthropic's server-sent events, in order, as bytes ready to send."""

import json
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]

# Long enough to be cheap, short enough that every answer worth reading comes in several pieces.
PIECE = 24


def to_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; a lone surrogate, which UTF-8 cannot hold, stays the escape that JSON allows."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def encode(event: Event) -> bytes:
    """One event on the wire."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), to_json(event))


def events(message: dict[str, Any]) -> Iterator[Event]:
    """All events of a whole Message, from `message_start` to `message_stop`."""
    usage = message["usage"]
    # The API counts output as it comes: the start knows only the first token.
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    start.pop("stop_details", None)
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    delta = {
        name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details", "container") if name in message
    }
    # The split by lifetime and the tier come only with the start.
    total = {
        name: value
        for name, value in usage.items()
        if name not in ("cache_creation", "service_tier", "speed", "inference_geo")
    }
    yield {"type": "message_delta", "delta": delta, "usage": total}
    yield {"type": "message_stop"}


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    opening, deltas = _split(block)
    yield {"type": "content_block_start", "index": index, "content_block": opening}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What opens a block, and the deltas that fill it; a type that has no deltas comes whole."""
    kind = block.get("type")
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
        return {**block, "text": "", **({"citations": []} if cited else {})}, cited + deltas
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"], ensure_ascii=False)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
    return block, []


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
