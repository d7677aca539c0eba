"""Rules about one message at a time: its shape, its blocks and their fields, and that nothing is empty.

Assistant blocks of unknown type or with unknown fields pass: the server may have sent them itself. What the user's side
sends is checked field by field.
"""

import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
Located = tuple[str, str, dict[str, Any]]

ROLES = ("user", "assistant", "system")
TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
TEXT_IS_EMPTY = "text content blocks must be non-empty"
TEXT_IS_BLANK = "text content blocks must contain non-whitespace text"
_NO_CONTENT = "all messages must have non-empty content except for the optional final assistant message"
_NOUNS: dict[type, str] = {str: "string", dict: "dictionary", bool: "boolean", list: "list"}
_REQUIRED: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "server_tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_use_id": str},
    "image": {"source": dict},
    "document": {"source": dict},
    "search_result": {"content": list, "source": str, "title": str},
    "tool_reference": {"tool_name": str},
    "container_upload": {"file_id": str},
}
# What the user's side may say in a block, by the SDK's param types.
USER_FIELDS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
    "image": frozenset({"type", "source", "cache_control", "transformations"}),
    "document": frozenset({"type", "source", "cache_control", "citations", "context", "title"}),
    "search_result": frozenset({"type", "source", "title", "content", "citations", "cache_control"}),
    "container_upload": frozenset({"type", "file_id", "cache_control"}),
    "tool_reference": frozenset({"type", "tool_name", "cache_control"}),
}
_IN_RESULT = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_USER_ONLY = frozenset({"tool_result", "search_result"})
_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})


def message_shape(body: Body) -> str | None:
    """A message has a role and a content, and nothing else."""
    for at, message in enumerate(body["messages"]):
        fault = _message_fault(message)
        if fault is not None:
            return f"messages.{at}{fault}"
    return None


def _message_fault(message: object) -> str | None:
    if not isinstance(message, dict):
        return ": Input should be a valid dictionary"
    for name in ("role", "content"):
        if name not in message:
            return f".{name}: Field required"
    if message["role"] not in ROLES:
        return ".role: Input should be 'user', 'assistant' or 'system'"
    if not isinstance(message["content"], str | list):
        return ".content: Input should be a valid list"
    return next(
        (f".{name}: Extra inputs are not permitted" for name in message if name not in ("role", "content")), None
    )


def block_shape(body: Body) -> str | None:
    """A block is an object with a type, in messages, system and tool results alike."""
    for place, content in _contents(body):
        for at, block in enumerate(content):
            fault = _block_fault(block)
            if fault is not None:
                return f"{place}.{at}{fault}"
    return None


def _block_fault(block: object) -> str | None:
    if not isinstance(block, dict):
        return ": Input should be a valid dictionary"
    if not isinstance(block.get("type"), str):
        return ".type: Field required"
    return _result_fault(block.get("content", "")) if block["type"] == "tool_result" else None


def _result_fault(content: object) -> str | None:
    if not isinstance(content, str | list):
        return ".tool_result.content: Input should be a valid list"
    for at, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in _IN_RESULT:
            return f".tool_result.content.{at}: Input tag '{kind}' does not match any of the expected tags"
    return None


def block_fields(body: Body) -> str | None:
    """The fields that a block cannot do without, and their types: a tool_use's input is an object."""
    for place, _, block in _located(body):
        for name, kind in _REQUIRED.get(block["type"], {}).items():
            if name not in block:
                return f"{place}.{block['type']}.{name}: Field required"
            if not isinstance(block[name], kind):
                return f"{place}.{block['type']}.{name}: Input should be a valid {_NOUNS[kind]}"
    return None


def no_extra_block_fields(body: Body) -> str | None:
    """Unknown fields in the user's blocks."""
    for place, role, block in _located(body):
        known = USER_FIELDS.get(block["type"])
        if role == "assistant" or known is None:
            continue
        for name in block:
            if name not in known:
                return f"{place}.{block['type']}.{name}: Extra inputs are not permitted"
    return None


def blocks_fit_the_role(body: Body) -> str | None:
    """Results come from the user, calls and thinking from the assistant."""
    for at, message in enumerate(body["messages"]):
        wrong, right = (_USER_ONLY, "user") if message["role"] == "assistant" else (_ASSISTANT_ONLY, "assistant")
        for block in blocks_of(message):
            if block["type"] in wrong:
                return f"messages.{at}: `{block['type']}` blocks can only be in `{right}` messages"
    return None


def content_is_not_empty(body: Body) -> str | None:
    """No message is empty: an empty answer must not be echoed."""
    for at, message in enumerate(body["messages"]):
        if not message["content"]:
            return f"messages.{at}: {_NO_CONTENT}"
    return None


def no_cache_control_on_empty_text(body: Body) -> str | None:
    """A breakpoint needs something before it."""
    for place, _, block in _located(body):
        if block["type"] == "text" and not block["text"] and block.get("cache_control"):
            return f"{place}.text: cache_control cannot be set for empty text blocks"
    return None


def text_is_not_empty(body: Body) -> str | None:
    """Text blocks, and contents given as a string, hold more than whitespace; those in a result are not empty."""
    texts = [block["text"] for message in body["messages"] for block in blocks_of(message) if block["type"] == "text"]
    fault = _text_fault(texts)
    in_results = [
        block["text"] for place, _, block in _located(body) if "tool_result" in place and block["type"] == "text"
    ]
    if fault is None and "" in in_results:
        fault = TEXT_IS_EMPTY
    return f"messages: {fault}" if fault else None


def system_is_not_empty(body: Body) -> str | None:
    """The system text, where it is a list of blocks."""
    system = body.get("system")
    if not isinstance(system, list):
        return None
    for at, block in enumerate(system):
        if block["type"] != "text":
            return f"system.{at}.type: Input should be 'text'"
    fault = _text_fault([block["text"] for block in system])
    return f"system: {fault}" if fault else None


def tool_use_ids_are_plain(body: Body) -> str | None:
    """Ids of other vendors may hold what Anthropic's may not."""
    for place, _, block in _located(body):
        name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
        if name and not TOOL_USE_ID.fullmatch(block[name]):
            return f"{place}.{block['type']}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'"
    return None


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message of right shape; a string is one text block."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text_fault(texts: list[str]) -> str | None:
    if "" in texts:
        return TEXT_IS_EMPTY
    return TEXT_IS_BLANK if any(not text.strip() for text in texts) else None


def _contents(body: Body) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(body.get("system"), list):
        yield "system", body["system"]
    for at, message in enumerate(body["messages"]):
        if isinstance(message["content"], list):
            yield f"messages.{at}.content", message["content"]


def _located(body: Body) -> Iterator[Located]:
    """Every block with its place and its side, those inside tool results included."""
    for place, content in _contents(body):
        role = "user" if place == "system" else body["messages"][int(place.split(".")[1])]["role"]
        for at, block in enumerate(content):
            yield f"{place}.{at}", role, block
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                for inner, part in enumerate(block["content"]):
                    yield f"{place}.{at}.tool_result.content.{inner}", role, part
