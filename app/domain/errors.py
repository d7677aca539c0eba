"""Every error of the runtime, named as a fact.

AgentError
├── ConfigError              a setting is missing or wrong; the sentence says which
├── DatabaseAway             the database does not answer; what was asked for may or may not have happened
├── RunNotFound              no run has this id (or it is not the caller's)
├── AmbiguousRunId           the id prefix fits several runs
├── IllegalTransition        a row is not in the state that the verb needs
├── AlreadyDecided           the approval was decided before; the first verdict stands
├── LeaseLost                another claim owns the step; nothing was written
├── CallCut                  our own side ended the call (stop, deadline, lost lease)
├── LlmError                 the model could not be asked, or refused
└── ToolError                data for the model, never the end of a worker
    ├── UnknownTool
    ├── BadArguments
    └── ToolTimeout
"""

from app.domain.usage import Usage


class AgentError(Exception):
    """Base of all errors of the runtime."""


class ConfigError(AgentError):
    """A setting is missing or wrong."""


class DatabaseAway(AgentError):
    """The database does not answer, or not in time. A write may or may not have gone through; the fence tells later."""


class RunNotFound(AgentError):
    """No run of this tenant has this id or id prefix."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run {run_id!r}")


class AmbiguousRunId(AgentError):
    """The id prefix fits several runs; give more of it."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"several runs begin with {prefix!r}: give more of the id")


class IllegalTransition(AgentError):
    """The row is not in the state that the verb needs; nothing was written."""


class AlreadyDecided(AgentError):
    """The approval was decided, cancelled or expired before; the first verdict stands."""


class LeaseLost(AgentError):
    """The step is no longer this claim's; nothing was written."""

    def __init__(self, run_id: str, seq: int, attempt: int) -> None:
        super().__init__(f"lease lost: run={run_id} seq={seq} attempt={attempt}")


class CallCut(AgentError):
    """Our own side ended the model call: `reason` is `stopped`, `lease_lost`, `attempt_limit` or `deadline`.

    Args:
        reason: why it was cut.
        usage: what had been billed when it was cut, as far as the stream said; estimated.

    `tries` and `waste` are those of the whole claim, this call included, once a retry layer has set them.
    """

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(f"model call cut: {reason}")
        self.reason = reason
        self.usage = usage or Usage()
        self.tries = 1
        self.waste = self.usage


class LlmError(AgentError):
    """The model could not be asked, or refused.

    Args:
        message: text for people.
        transient: whether the same request may succeed later.
        code: `error_code` of the run when this ends it: Anthropic's error type, or `connection_error`.
        status: HTTP status; None for I/O errors.
        retry_after_s: what the server asked us to wait, in seconds (never negative); None when it said nothing usable.
        request_id: Anthropic's `request-id` header.
        usage: what a broken stream had already billed; estimated.

    `tries` and `waste` are those of the whole claim, this call included, once a retry layer has set them.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool,
        code: str,
        status: int | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.usage = usage or Usage()
        self.tries = 1
        self.waste = self.usage


class ToolError(AgentError):
    """A tool's failure: its text goes to the model as an error result."""


class UnknownTool(ToolError):
    """The model asked for a tool that this run does not have."""


class BadArguments(ToolError):
    """The arguments do not fit the tool's schema; the tool's body never ran."""


class ToolTimeout(ToolError):
    """The tool did not return within its time limit."""
