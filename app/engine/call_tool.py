"""Performing a tool step. Whatever a tool does, the model reads it: its failure is data, never the end of a worker."""

import logging
import time

from app.domain.effect import may_repeat
from app.domain.errors import BadArguments, ToolTimeout
from app.domain.outcome import Outcome, Returned, Suspended, Unavailable
from app.domain.run import Claim
from app.domain.text import dumps
from app.engine.keeper import Held
from app.engine.perform import arguments
from app.engine.runtime import Runtime
from app.tools.call import ToolCall
from app.tools.declare import Tool
from app.tools.registry import unknown_tool_message
from app.tools.result import error_text, result_text
from app.tools.time_limit import time_limit

log = logging.getLogger(__name__)


def call_tool(runtime: Runtime, claim: Claim, held: Held) -> Outcome:
    """Run the tool of a claimed step under its time limit."""
    assert claim.tool_name is not None
    if claim.effect is None:
        history = runtime.store.read_history(claim.lease.run_id, claim.lease.seq)
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
    at_most = runtime.tool_result_max_chars
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
        with time_limit(limit_s):
            value = tool.invoke(arguments(claim), call)
    except ToolTimeout as error:
        return "timed_out", dumps(error_text(error, at_most))
    except BadArguments as error:
        return "bad_arguments", dumps(error_text(error, at_most))
    except Exception as error:
        log.info("run=%s seq=%s %s raised", lease.run_id[:8], lease.seq, tool.name, exc_info=True)
        return "raised", dumps(error_text(error, at_most))
    return None, result_text(value, at_most)
