"""The events of a Messages stream, as the API sends them, and scripts for `raw_server` that send them."""

import json
from typing import Any

from tests.support.raw_server import Peer, Script

Event = dict[str, Any]


def message_start(**usage: Any) -> Event:
    """The first event. `usage` overrides or adds usage fields (30 input tokens, 1 output token)."""
    message: dict[str, Any] = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 30, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[Event]:
    """One content block: its start, its deltas, its stop."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *parts: str) -> list[Event]:
    """A text block that comes in parts."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": part} for part in parts))


def message_delta(stop_reason: str | None = "end_turn", output_tokens: int = 12, **usage: Any) -> Event:
    """The event with the stop reason and the running usage."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output_tokens, **usage}}


MESSAGE_STOP: Event = {"type": "message_stop"}


def whole(text: str = "Hi.") -> list[Event]:
    """All events of a short answer."""
    return [message_start(), *text_block(0, text), message_delta(), MESSAGE_STOP]


def streaming(*events: Event, end: bool = True, **headers: str) -> Script:
    """Send these events, then end the stream, or break the connection."""

    def script(peer: Peer) -> None:
        peer.open_stream(**headers)
        peer.events(*events)
        if end:
            peer.end_stream()
        else:
            peer.drop()

    return script


def refusing(status: int, body: Any, **headers: str) -> Script:
    """Answer with a status and a body (JSON, or text as it is)."""
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda peer: peer.respond(status, named, text)
