"""Which scripted turn answers a request: a conversation names its script, and each request plays one turn.

The marker is `[script:KEY]` in the text of the first user message, or in `metadata.user_id`. Without one the demo model
answers.
"""

import re
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from app.llm.fake.rules_content import blocks_of
from app.llm.fake.turn import Turn

_MARKER = re.compile(r"\[script:([^\]]+)\]")
_PAUSES = frozenset({"pause_turn", "compaction"})


class Scripts:
    """The turns still to be played, by key. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, deque[Turn]] = {}
        self._paused: set[str] = set()

    def add(self, key: str, turns: Iterable[Turn]) -> None:
        """Append turns to the script of `key`."""
        with self._lock:
            self._turns.setdefault(key, deque()).extend(turns)

    def next_turn(self, key: str) -> Turn | None:
        """Take the next turn; None when the script is exhausted, or was never written."""
        with self._lock:
            waiting = self._turns.get(key)
            turn = waiting.popleft() if waiting else None
            # An error in between leaves the conversation where it was: paused, if it was paused.
            if turn is not None and turn.status == 200 and turn.fault is None:
                (self._paused.add if turn.stops_for in _PAUSES else self._paused.discard)(key)
            return turn

    def is_paused(self, key: str) -> bool:
        """Whether the last turn played asked to be called again with itself as the last message."""
        with self._lock:
            return key in self._paused

    def clear(self) -> None:
        """Forget all scripts."""
        with self._lock:
            self._turns.clear()
            self._paused.clear()


def key_of(body: object) -> str | None:
    """The script that a request names. The request need not be valid: a refused one is logged under its key too."""
    if not isinstance(body, dict):
        return None
    for text in (*_first_texts(body.get("messages")), _user_id(body)):
        found = _MARKER.search(text)
        if found:
            return found.group(1)
    return None


def _first_texts(messages: object) -> list[str]:
    first = messages[0] if isinstance(messages, list) and messages else None
    if not isinstance(first, dict) or not isinstance(first.get("content"), str | list):
        return []
    blocks = [block for block in blocks_of(first) if isinstance(block, dict)]
    return [block["text"] for block in blocks if isinstance(block.get("text"), str)]


def _user_id(body: dict[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("user_id", "")) if isinstance(metadata, dict) else ""
