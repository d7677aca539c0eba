"""Doing the work of a claimed step: nothing is written here, and no connection is held."""

import json
import logging
import time
from dataclasses import asdict, dataclass
from typing import Any

from app.domain.agent import AgentVersion
from app.domain.errors import CallCut, LeaseLost, LlmError
from app.domain.outcome import Answered, Cut, Outcome, Postponed, Refused
from app.domain.replay import replay
from app.domain.run import Claim, History
from app.domain.text import dumps, sha256
from app.domain.usage import Usage
from app.engine.keeper import Held
from app.engine.patience import patiently
from app.engine.runtime import Runtime
from app.llm.client import ModelRequest, ModelResponse
from app.llm.retrying import Postpone

log = logging.getLogger("durable.step")


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of a model step, and the agent that opens its tools."""

    outcome: Outcome
    agent: AgentVersion


def ask_model(runtime: Runtime, claim: Claim, held: Held) -> Asked:
    """Rebuild the request from the log and ask the model.

    Raises:
        LeaseLost: the lease ended during the call; there is nothing to write.
    """
    lease = claim.lease
    history = patiently(runtime, held, lambda: runtime.store.read_history(lease.run_id, lease.seq))
    return Asked(_asked(runtime, claim, held, build_request(history)), history.agent)


def _asked(runtime: Runtime, claim: Claim, held: Held, request: ModelRequest) -> Outcome:
    began = time.monotonic()
    try:
        response = runtime.model.complete(request, held.cutoff, tries_before=claim.tries)
    except Postpone as wait:
        spent = _spent(runtime, claim, request, tries=wait.tries, waste=wait.waste)
        return Postponed(wait.wait_s, reason=wait.error.code, **spent)
    except LlmError as error:
        spent = _spent(runtime, claim, request, tries=error.tries, waste=error.waste)
        latency_ms = _ms_since(began)
        return Refused(error.code, str(error), latency_ms=latency_ms, request_id=error.request_id, **spent)
    except CallCut as cut:
        if cut.reason == "lease_lost":
            raise LeaseLost(claim.lease.run_id, claim.lease.seq, claim.lease.attempt) from cut
        return Cut(latency_ms=_ms_since(began), **_spent(runtime, claim, request, tries=cut.tries, waste=cut.waste))
    return _answered(runtime, claim, request, response)


def _answered(runtime: Runtime, claim: Claim, request: ModelRequest, response: ModelResponse) -> Answered:
    cost_nano = runtime.prices.cost_nano(response.model, response.usage, runtime.today())
    if cost_nano is None:
        log.warning("run=%s no price for %s: its cost is unknown", claim.lease.run_id[:8], response.model)
    return Answered(
        response=response.content,
        stop_reason=response.stop_reason,
        model=response.model,
        usage=response.usage,
        cost_nano=cost_nano,
        price_version=None if cost_nano is None else runtime.prices.version,
        message_id=response.message_id,
        request_id=response.request_id,
        request_hash=sha256(dumps(asdict(request))),
        latency_ms=response.latency_ms,
        **_spent(runtime, claim, request, tries=response.tries, waste=response.waste),
    )


def _spent(runtime: Runtime, claim: Claim, request: ModelRequest, *, tries: int, waste: Usage) -> dict[str, Any]:
    """The columns about tries that came to nothing: all the step's tries, and this claim's waste with its price."""
    cost_nano = runtime.prices.cost_nano(request.model, waste, runtime.today()) or 0
    return {"tries": claim.tries + tries, "waste": waste, "waste_cost_nano": cost_nano}


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def build_request(history: History) -> ModelRequest:
    """The request of the step that follows this history; the same history gives the same request."""
    agent = history.agent
    return ModelRequest(
        model=agent.model,
        max_tokens=max(1, min(agent.max_tokens, history.tokens_left)),
        messages=replay(history.input, history.steps),
        system=agent.system,
        tools=[tool.as_sent() for tool in agent.tools],
        thinking=agent.thinking,
        effort=agent.effort,
    )


def arguments(claim: Claim) -> Any:
    """The arguments of a tool step, exactly as the model gave them."""
    return json.loads(claim.tool_input or "null")
