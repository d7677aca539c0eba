"""Rules across messages: who speaks first and last, and that every tool_use has its one result at the right place.

Messages of one role in a row count as one turn, as the API merges them; places are named by the message sent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.llm.fake.rules_content import blocks_of

Body = dict[str, Any]

_ORPHAN = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
_UNANSWERED = (
    "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
_DOUBLE = "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."


@dataclass(slots=True)
class _Turn:
    """Messages of one role in a row. `blocks`: (message index, block index, block)."""

    role: str
    at: int
    blocks: list[tuple[int, int, Body]] = field(default_factory=list)

    def calls(self) -> list[str]:
        return [block["id"] for _, _, block in self.blocks if block["type"] == "tool_use"]

    def leading_results(self) -> set[str]:
        """Ids answered before any other block: a result behind text does not count."""
        ids = set()
        for _, _, block in self.blocks:
            if block["type"] != "tool_result":
                break
            ids.add(block["tool_use_id"])
        return ids


def first_message_is_user(body: Body) -> str | None:
    """The user begins."""
    first = body["messages"][0]["role"]
    return None if first == "user" else 'messages: first message must use the "user" role'


def system_follows_user(body: Body) -> str | None:
    """A system message in mid-conversation stands after the user's message and before the assistant's."""
    roles = [message["role"] for message in body["messages"]]
    for at, role in enumerate(roles):
        if role == "system" and (roles[at - 1] == "assistant" or roles[at + 1 : at + 2] == ["user"]):
            return f"messages.{at}: `system` messages must follow a `user` message and must not precede one"
    return None


def tool_use_ids_are_unique(body: Body) -> str | None:
    """An id names one call of the whole conversation."""
    seen: set[str] = set()
    for at, inner, block in _blocks(body, "tool_use"):
        if block["id"] in seen:
            return f"messages.{at}.content.{inner}: `tool_use` ids must be unique"
        seen.add(block["id"])
    return None


def one_result_for_each_id(body: Body) -> str | None:
    """A second result for a call is refused, wherever it stands."""
    seen: set[str] = set()
    for at, inner, block in _blocks(body, "tool_result"):
        if block["tool_use_id"] in seen:
            return f"messages.{at}.content.{inner}: {_DOUBLE.format(id=block['tool_use_id'])}"
        seen.add(block["tool_use_id"])
    return None


def no_orphan_results(body: Body) -> str | None:
    """A result answers a call of the turn just before."""
    calls: list[str] = []
    for turn in _turns(body):
        for at, inner, block in turn.blocks:
            if block["type"] == "tool_result" and block["tool_use_id"] not in calls:
                return f"messages.{at}.content.{inner}: {_ORPHAN.format(id=block['tool_use_id'])}"
        calls = turn.calls()
    return None


def every_tool_use_is_answered(body: Body) -> str | None:
    """Each call has its result in the next turn, before anything else in it."""
    turns = _turns(body)
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        answered = following.leading_results() if following else set()
        missing = [name for name in turn.calls() if name not in answered]
        if missing:
            return _UNANSWERED.format(at=turn.at, ids=", ".join(missing))
    return None


def no_prefill(body: Body) -> str | None:
    """The assistant may speak last only where a server tool is still at work."""
    last = body["messages"][-1]
    if last["role"] != "assistant" or _is_server_tool(blocks_of(last)[-1]["type"]):
        return None
    return _PREFILL


def _is_server_tool(kind: str) -> bool:
    return kind == "server_tool_use" or (kind.endswith("_tool_result") and kind != "tool_result")


def _blocks(body: Body, kind: str) -> Iterator[tuple[int, int, Body]]:
    for turn in _turns(body):
        yield from (located for located in turn.blocks if located[2]["type"] == kind)


def _turns(body: Body) -> list[_Turn]:
    turns: list[_Turn] = []
    for at, message in enumerate(body["messages"]):
        # A system message lies between a user's message and the answer: it ends no turn and begins none.
        if message["role"] == "system":
            continue
        if not turns or turns[-1].role != message["role"]:
            turns.append(_Turn(message["role"], at))
        turns[-1].at = at
        turns[-1].blocks += [(at, inner, block) for inner, block in enumerate(blocks_of(message))]
    return turns
