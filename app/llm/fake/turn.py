"""One scripted answer: blocks with a stop reason, or an HTTP error, or either cut short by a fault."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Fault = Literal["drop", "hang", "silent", "eof", "error_event"]
FAULTS: tuple[str, ...] = get_args(Fault)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the server does with one request.

    Attributes:
        content: content blocks, sent as they are; their known types must be valid.
        stop_reason: None means `tool_use` when the content calls a tool, else `end_turn`.
        stop_sequence, stop_details, container, id, model: as in the API's Message; model defaults to the request's.
        usage: as in the API's Message; what is missing is estimated (prompt, output) or zero (cache).
        latency_s: seconds; None means the server's own. Errors come at once unless they say otherwise.
        status: any other than 200 makes this an error answer; then `error` or `body` is sent, with `headers`.
        error: `{"type", "message", ...}`, Anthropic's error object; also what `error_event` sends.
        body: raw text instead of `error`, as a proxy would answer.
        fault: `drop` cuts the connection in mid-answer, `eof` ends a stream cleanly without its last events, `hang`
            falls silent after the headers, `silent` never answers, `error_event` breaks off with an error event.
    """

    content: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    latency_s: float | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    body: str | None = None
    fault: Fault | None = None

    @classmethod
    def parse(cls, raw: object) -> "Turn":
        """A turn from its JSON.

        Raises:
            ValueError: a field is unknown or contradicts another; a script must not be silently something else.
        """
        if not isinstance(raw, dict):
            raise ValueError("a turn is a JSON object")
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(raw) - known)
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r} in a turn; it may have {', '.join(sorted(known))}")
        turn = cls(**raw)
        turn.check()
        return turn

    def check(self) -> None:
        """Raise ValueError where the fields do not make an answer."""
        if self.fault is not None and self.fault not in FAULTS:
            raise ValueError(f"unknown fault {self.fault!r}; one of {', '.join(FAULTS)}")
        wants_error = (self.status != 200 and self.body is None) or self.fault == "error_event"
        if wants_error and not (self.error and {"type", "message"} <= self.error.keys()):
            raise ValueError("this turn needs an error with type and message")
        if not isinstance(self.content, list) or not all(isinstance(block, dict) for block in self.content):
            raise ValueError("content is a list of blocks")
        if self.latency_s is not None and self.latency_s < 0:
            raise ValueError("latency_s is not negative")

    @property
    def stops_for(self) -> str:
        """The stop reason that is sent."""
        calls = any(block.get("type") == "tool_use" for block in self.content)
        return self.stop_reason or ("tool_use" if calls else "end_turn")
