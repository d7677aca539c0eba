"""What was asked of the server: one entry for each Messages request, refused ones included, with the raw bytes.

Tests count on it (exactly n calls, byte-equal prefixes), so it never forgets quietly: when the oldest entries had to go
to keep memory bounded, reading says so.
"""

import itertools
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as it came in.

    Attributes:
        at: arrival, seconds since the epoch.
        key: the script that it named; empty when it named none.
        status: of the answer; 0 while there is none yet.
        body: the raw bytes.
        headers: names in lower case.
        finished: the whole answer was sent, to a client that was still there.
    """

    at: float
    key: str
    status: int
    body: bytes
    headers: dict[str, str]
    finished: bool

    def to_json(self) -> dict[str, Any]:
        """For the HTTP interface; bytes that are no UTF-8 survive as lone surrogates."""
        return {
            "at": self.at,
            "key": self.key,
            "status": self.status,
            "body": self.body.decode("utf-8", "surrogateescape"),
            "headers": self.headers,
            "finished": self.finished,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "LoggedRequest":
        """The reverse of `to_json`."""
        return cls(**{**raw, "body": raw["body"].encode("utf-8", "surrogateescape")})


class RequestLog:
    """The entries in order of arrival. Safe from any thread."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._dropped = 0
        self._numbers = itertools.count()
        self._entries: dict[int, LoggedRequest] = {}

    def add(self, key: str, body: bytes, headers: dict[str, str]) -> int:
        """Log an arrival; the number names the entry, and is never used again."""
        with self._lock:
            number = next(self._numbers)
            self._entries[number] = LoggedRequest(time.time(), key, 0, body, headers=headers, finished=False)
            self._bytes += len(body)
            while self._bytes > self._max_bytes and len(self._entries) > 1:
                self._bytes -= len(self._entries.pop(next(iter(self._entries))).body)
                self._dropped += 1
            return number

    def update(self, number: int, **changes: Any) -> None:
        """Set `status` or `finished` of an entry; nothing happens if it is gone."""
        with self._lock:
            if number in self._entries:
                self._entries[number] = replace(self._entries[number], **changes)

    def read(self, key: str | None = None) -> list[LoggedRequest]:
        """The entries of one key, or all.

        Raises:
            LookupError: the oldest entries are gone, so that no count would be true.
        """
        with self._lock:
            if self._dropped:
                raise LookupError(f"the log passed {self._max_bytes} bytes and dropped {self._dropped} requests")
            return [entry for entry in self._entries.values() if key is None or entry.key == key]

    def clear(self) -> None:
        """Forget all entries. Answers still under way will not be found again."""
        with self._lock:
            self._entries.clear()
            self._bytes = self._dropped = 0
