"""Rebuild the messages of a run from its steps.

Rules:
1. What the model said is echoed as it came, block for block (thinking and signatures included).
2. One fixed list of repairs and nothing else: a text block without a visible character is dropped, since the API sends
   such blocks and refuses them; a tool_use id seen before in the run is made unique from its step's seq, alike in call
   and result.
3. All results of a turn go into one user message, results only, in seq order.
4. The messages of a later call begin with those of an earlier one (invariant I10): nothing here may look ahead.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.blocks import Block
from app.domain.status import StepKind, StepStatus

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PastStep:
    """What replay needs of a final step.

    Attributes:
        response: MODEL: the content blocks, JSON text.
        result: TOOL: the content of the tool_result, JSON text (a string, or a list of blocks).
    """

    seq: int
    turn: int
    kind: StepKind
    status: StepStatus
    response: str | None = None
    tool_use_id: str | None = None
    result: str | None = None
    is_error: bool = False


def replay(run_input: str, steps: Sequence[PastStep]) -> list[Message]:
    """The messages of the next model call.

    Args:
        run_input: JSON text of what the user said: a string, or a list of content blocks.
        steps: the final steps in seq order. Model steps without an answer (failed, cancelled) add nothing.
    """
    messages: list[Message] = [{"role": "user", "content": json.loads(run_input)}]
    seen: set[str] = set()
    for turn in _turns(steps):
        model, tools = turn[0], turn[1:]
        names = _unique_ids(tools, seen)
        blocks = _echo(json.loads(model.response or "[]"), names)
        if blocks:
            messages.append({"role": "assistant", "content": blocks})
        if tools:
            messages.append(
                {"role": "user", "content": [_result(s, name) for s, name in zip(tools, names, strict=True)]}
            )
    return messages


def _turns(steps: Iterable[PastStep]) -> list[list[PastStep]]:
    """Each answered model step with the tool steps of its turn."""
    turns: list[list[PastStep]] = []
    for step in steps:
        if step.kind is StepKind.MODEL:
            if step.status is StepStatus.DONE:
                turns.append([step])
        else:
            turns[-1].append(step)
    return turns


def _unique_ids(tools: Sequence[PastStep], seen: set[str]) -> list[str]:
    """The ids under which this turn's calls are sent; `seen` grows by them."""
    ids = []
    for step in tools:
        name = step.tool_use_id or ""
        while name in seen or not name:
            name = f"{name or 'toolu'}-{step.seq}"
        seen.add(name)
        ids.append(name)
    return ids


def _echo(blocks: list[Block], names: Sequence[str]) -> list[Block]:
    remaining = iter(names)
    echoed = []
    for block in blocks:
        if block.get("type") == "text" and not str(block.get("text")).strip():
            continue
        if block.get("type") == "tool_use":
            name = next(remaining, block.get("id"))
            block = block if block.get("id") == name else {**block, "id": name}
        echoed.append(block)
    return echoed


def _result(step: PastStep, name: str) -> Block:
    # A call that a stop ended has no result; silence would read as success.
    content = json.loads(step.result) if step.result is not None else "cancelled before it had a result"
    block: Block = {"type": "tool_result", "tool_use_id": name, "content": content}
    return {**block, "is_error": True} if step.is_error or step.result is None else block
