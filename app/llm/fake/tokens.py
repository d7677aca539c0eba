"""Plausible usage figures: tokens estimated from the size of the text, and a prompt cache that remembers prefixes.

The cache follows the API's order (tools, system, messages) and keys on everything before a breakpoint, so that a caller
who changes an early byte sees its cache reads vanish here too. Lifetimes are not simulated.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from app.llm.fake.rules_content import blocks_of

Body = dict[str, Any]

CHARS_PER_TOKEN = 4
# Shorter prefixes are silently not cached, as for the models of the Sonnet class.
MIN_CACHED_TOKENS = 1024
_MAX_PREFIXES = 100_000


def estimate(value: Any) -> int:
    """Tokens of a JSON value; at least 1."""
    return max(1, len(json.dumps(value, ensure_ascii=False)) // CHARS_PER_TOKEN)


class PromptCache:
    """Prefixes that were written by earlier requests. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def prompt_usage(self, body: Body) -> dict[str, Any]:
        """The prompt's part of a `usage` object for this request; remembers its breakpoints."""
        total, read, written, ttl = 0, 0, 0, "5m"
        with self._lock:
            for digest, so_far, mark in _prefixes(body):
                total = so_far
                if total >= MIN_CACHED_TOKENS and digest in self._known:
                    read = total
                if mark and total >= MIN_CACHED_TOKENS:
                    written, ttl = total, mark.get("ttl", "5m")
                    self._remember(digest)
        read = min(read, written)
        return _usage(total - max(written, read), read, written - read, ttl)

    def _remember(self, digest: bytes) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > _MAX_PREFIXES:
            self._known.popitem(last=False)


def _usage(fresh: int, read: int, written: int, ttl: str) -> dict[str, Any]:
    hour = written if ttl == "1h" else 0
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour},
    }


def _prefixes(body: Body) -> Iterator[tuple[bytes, int, dict[str, Any] | None]]:
    """For each piece of the prompt: hash and tokens of all up to and with it, and its cache mark."""
    pieces = list(_pieces(body))
    digest, total = hashlib.sha256(str(body["model"]).encode()), 0
    for at, (label, piece) in enumerate(pieces):
        bare = {name: value for name, value in piece.items() if name != "cache_control"}
        digest.update(json.dumps([label, bare]).encode())
        total += estimate(bare)
        mark = piece.get("cache_control")
        if mark is None and at == len(pieces) - 1:
            mark = body.get("cache_control")
        yield digest.digest(), total, mark


def _pieces(body: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (("tool", tool) for tool in body.get("tools", ()))
    if body.get("system"):
        yield from (("system", block) for block in blocks_of({"content": body["system"]}))
    for message in body["messages"]:
        yield from ((message["role"], block) for block in blocks_of(message))
