"""Performing a tool step. A tool's failure is data for the model, never the end of a worker.

Rules:
1. Whatever a tool raises as an Exception, and SystemExit (argument parsers raise it), is an error result.
2. KeyboardInterrupt and every other BaseException go up: a person wants this process to end, or something is amiss
   with it. The claim then lapses like that of any lost worker, counted.
3. A timeout says nothing about the effect: a tool that may not repeat is in doubt after it. Writing down what a tool
   returned has a limit of its own, since by then the effect is certain.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from app.domain.effect import may_repeat
from app.domain.errors import BadArguments, ToolTimeout
from app.domain.outcome import Outcome, Returned, Suspended, Unavailable
from app.domain.run import Claim
from app.domain.text import dumps
from app.engine.keeper import Held
from app.engine.patience import patiently
from app.engine.perform import arguments
from app.engine.runtime import Runtime
from app.tools.call import ToolCall
from app.tools.declare import Tool
from app.tools.registry import unknown_tool_message
from app.tools.result import error_text, result_text
from app.tools.time_limit import time_limit

log = logging.getLogger(__name__)

#: Limit of turning a tool's value into text; shorter than the pool's grace, or the hard limit would come first.
WRITING_S = 2.0


def call_tool(runtime: Runtime, claim: Claim, held: Held) -> Outcome:
    """Run the tool of a claimed step under its time limit."""
    assert claim.tool_name is not None
    if claim.effect is None:
        lease = claim.lease
        history = patiently(runtime, held, lambda: runtime.store.read_history(lease.run_id, lease.seq))
        text = unknown_tool_message(claim.tool_name, [tool.name for tool in history.agent.tools])
        return Returned(dumps(text), is_error=True, latency_ms=0, error_code="unknown_tool")
    tool = runtime.tools.get(claim.tool_name)
    if tool is None:
        return Unavailable(f"{claim.tool_name} is not implemented on {runtime.node}")
    began = time.monotonic()
    code, text = _invoke(runtime, tool, claim, held)
    if code == "timed_out" and not may_repeat(claim.effect):
        return Suspended("in_doubt", f"{claim.tool_name} timed out: whether the call took effect is not known")
    latency_ms = round((time.monotonic() - began) * 1000)
    return Returned(text, is_error=code is not None, latency_ms=latency_ms, error_code=code)


def _invoke(runtime: Runtime, tool: Tool[..., object], claim: Claim, held: Held) -> tuple[str | None, str]:
    """An error code, or None, and the tool_result's content as JSON text."""
    limit_s = max(0.0, min(claim.timeout_s or 0.0, claim.seconds_left))
    lease = claim.lease
    call = ToolCall(
        run_id=lease.run_id,
        seq=lease.seq,
        id=claim.tool_use_id or "",
        seconds_left=limit_s,
        attempt=lease.attempt,
        stopped=held.stopped,
    )
    try:
        value = time_limit(limit_s, lambda: tool.invoke(arguments(claim), call))
    except (Exception, SystemExit) as error:
        code = _code(error)
        if code == "raised":
            log.info("run=%s seq=%s %s raised", lease.run_id[:8], lease.seq, tool.name, exc_info=True)
        return code, _written(_error_text, error, runtime.tool_result_max_chars)
    return None, _written(result_text, value, runtime.tool_result_max_chars)


def _code(error: BaseException) -> str:
    match error:
        case ToolTimeout():
            return "timed_out"
        case BadArguments():
            return "bad_arguments"
        case _:
            return "raised"


def _written(write: Callable[[Any, int], str], value: object, at_most: int) -> str:
    """The text of what a tool returned or raised, whose own code takes part in writing it."""
    try:
        return time_limit(WRITING_S, lambda: write(value, at_most))
    except (ToolTimeout, SystemExit):
        return dumps(f"[a value of type {type(value).__name__} that could not be written as text]")


def _error_text(error: BaseException, at_most: int) -> str:
    return dumps(error_text(error, at_most))
