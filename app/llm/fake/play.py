"""Playing a turn: the whole answer or its stream, spread over the latency, or broken as the script says.

Rules: the log learns of an answer before the client does, since a test asks the log as soon as it has its answer.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.llm.fake import sse, wire
from app.llm.fake.answer import build_message
from app.llm.fake.problem import Problem
from app.llm.fake.state import FakeState
from app.llm.fake.turn import Turn
from app.llm.fake.wire import Wire

# The first bytes of a stream come after this part of its latency; the rest is spread over the answer.
FIRST_BYTES_AFTER = 0.25
MAX_PAUSES = 16


@dataclass(slots=True)
class Exchange:
    """One request and the way to its answer."""

    state: FakeState
    wire: Wire
    entry: int
    request_id: str
    headers: dict[str, str]

    def refuse(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        """Answer with an error body."""
        self.whole(problem.status, sse.to_json(problem.body(self.request_id)), headers or {})

    def whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Answer in one piece."""
        self.began(status)
        names = {name.lower(): value for name, value in headers.items()}
        self.last(wire.plain(status, {"content-type": "application/json", **self.headers, **names}, body))

    def began(self, status: int) -> None:
        """Log the status; before it is sent, since the client may ask the log at once."""
        self.state.log.update(self.entry, status=status)

    def last(self, data: bytes) -> None:
        """Send the end of an answer, and log it as finished if the client was there to take it."""
        self.state.log.update(self.entry, finished=True)
        try:
            self.wire.send(data)
        except wire.ClientGone:
            self.state.log.update(self.entry, finished=False)
            raise


def play(exchange: Exchange, turn: Turn, body: dict[str, Any]) -> None:
    """Answer a valid request with a turn, at its pace and with its fault.

    Raises:
        ClientGone: the client left, or the fault ended the connection.
    """
    started = time.monotonic()
    if turn.fault == "silent":
        exchange.wire.wait_for_close()
    if turn.status != 200:
        exchange.wire.wait_until(started + (turn.latency_s or 0.0))
        _play_error(exchange, turn)
        return
    latency_s = exchange.state.latency_s if turn.latency_s is None else turn.latency_s
    message = build_message(turn, body["model"], exchange.state.cache.prompt_usage(body))
    if body.get("stream"):
        _play_stream(exchange, turn, _Pace(started, latency_s), message)
    else:
        exchange.wire.wait_until(started + latency_s)
        _play_plain(exchange, turn, sse.to_json(message))


def _play_error(exchange: Exchange, turn: Turn) -> None:
    if turn.body is not None:
        exchange.whole(turn.status, turn.body.encode(), {"content-type": "text/html", **turn.headers})
        return
    error = turn.error or {}
    more = {name: value for name, value in error.items() if name not in ("type", "message")}
    exchange.refuse(Problem(turn.status, error["type"], error["message"], more), turn.headers)


def _play_plain(exchange: Exchange, turn: Turn, body: bytes) -> None:
    if turn.fault is None:
        exchange.whole(200, body, turn.headers)
    elif turn.fault == "error_event":
        _play_error(exchange, Turn(status=500, error=turn.error, headers=turn.headers))
    else:
        exchange.began(200)
        data = wire.plain(200, {"content-type": "application/json", **exchange.headers, **turn.headers}, body)
        end = len(data) - len(body) // 2 if turn.fault != "hang" else len(data) - len(body)
        exchange.wire.send(data[:end])
        _go_wrong(exchange, turn)


def _play_stream(exchange: Exchange, turn: Turn, pace: "_Pace", message: dict[str, Any]) -> None:
    exchange.wire.wait_until(pace.first)
    exchange.began(200)
    kind = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
    pending = wire.head(200, {**kind, "cache-control": "no-cache", **exchange.headers, **turn.headers})
    for moment, data in pace.over(_chunks(turn, message)):
        # What is due now goes out with what was due before it: at no latency the answer is a single write.
        if moment > time.monotonic():
            exchange.wire.send(pending)
            exchange.wire.wait_until(moment)
            pending = b""
        pending += data
    if turn.fault in ("drop", "hang"):
        exchange.wire.send(pending)
        _go_wrong(exchange, turn)
    exchange.last(pending + wire.CHUNKED_END)


def _chunks(turn: Turn, message: dict[str, Any]) -> list[bytes]:
    chunks = [wire.chunk(sse.encode(event)) for event in sse.events(message)]
    if turn.fault is None:
        return chunks
    if turn.fault == "hang":
        return []
    # The start always arrives: a stream that breaks has billed its prompt.
    broken = chunks[: max(2, len(chunks) // 2)]
    error = wire.chunk(sse.encode({"type": "error", "error": turn.error}))
    return [*broken, error] if turn.fault == "error_event" else broken


def _go_wrong(exchange: Exchange, turn: Turn) -> None:
    """The end of an answer that never ends. Always raises ClientGone."""
    if turn.fault == "hang":
        exchange.wire.wait_for_close()
    exchange.wire.cut()
    raise wire.ClientGone


@dataclass(frozen=True, slots=True)
class _Pace:
    """When the parts of a stream are due, by the monotonic clock."""

    started: float
    latency_s: float

    @property
    def first(self) -> float:
        return self.started + FIRST_BYTES_AFTER * self.latency_s

    def over(self, chunks: list[bytes]) -> Iterator[tuple[float, bytes]]:
        """The chunks in at most MAX_PAUSES groups, the last of them due when the latency is over."""
        if not chunks:
            return
        yield self.first, b"".join(chunks[:2])
        rest = chunks[2:]
        groups = min(MAX_PAUSES, len(rest))
        step = (1 - FIRST_BYTES_AFTER) * self.latency_s / max(1, groups)
        for at in range(groups):
            part = rest[at * len(rest) // groups : (at + 1) * len(rest) // groups]
            yield self.first + (at + 1) * step, b"".join(part)
