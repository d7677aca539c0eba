"""Reading content blocks. They are selected by type, never by position: text need not come first, or at all."""

from dataclasses import dataclass
from typing import Any

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call that the model asked for.

    Attributes:
        id: Anthropic's id; unique in its response, by other gateways not always in the run.
        input: the arguments as received; an object by the API's rules, but anything may come.
    """

    id: str
    name: str
    input: Any


def tool_uses(blocks: list[Block]) -> list[ToolUse]:
    """The client tool calls of a turn, in order."""
    return [
        ToolUse(str(block.get("id", "")), str(block.get("name", "")), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]


def final_text(blocks: list[Block]) -> str:
    """All text of a turn, joined."""
    return "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
