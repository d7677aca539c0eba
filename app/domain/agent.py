"""What a run was started with: frozen, immutable, addressed by its content."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from app.domain.effect import Effect
from app.domain.text import dumps, sha256

#: The approval rules a tool can declare, as stored on its steps.
APPROVALS = ("never", "always")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it, and the rules under which the runtime runs it.

    Attributes:
        name: 1 to 64 characters of [a-zA-Z0-9_-] (Anthropic's rule for tool names).
        input_schema: JSON schema of the arguments, `type: object`.
        queue: the queue its steps go to.
        timeout_s: the soft limit of one call, in seconds.
        approval: `never` or `always`.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    effect: Effect
    queue: str = "tool"
    timeout_s: float = 60.0
    approval: str = "never"

    def as_sent(self) -> dict[str, Any]:
        """The entry of the request's `tools` list."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """System text, tools in order, model and its knobs. A deploy changes new runs only.

    Attributes:
        max_tokens: output cap of one model call.
        thinking: Anthropic's `thinking` object, or None for the model's default.
        effort: Anthropic's `output_config.effort`, or None for the model's default.
    """

    model: str
    max_tokens: int
    system: str | None = None
    tools: tuple[ToolDefinition, ...] = ()
    thinking: dict[str, Any] | None = None
    effort: str | None = None

    def body(self) -> str:
        """The stored form, JSON text: same content, same text."""
        return dumps(asdict(self))

    @property
    def id(self) -> str:
        """SHA-256 of the stored form, in hex."""
        return sha256(self.body())

    @classmethod
    def from_body(cls, body: str) -> "AgentVersion":
        """The inverse of `body`."""
        fields = json.loads(body)
        tools = tuple(ToolDefinition(**{**tool, "effect": Effect(tool["effect"])}) for tool in fields.pop("tools"))
        return cls(tools=tools, **fields)

    def tool(self, name: str) -> ToolDefinition | None:
        """The definition of that name, if the run has it."""
        return next((tool for tool in self.tools if tool.name == name), None)
