"""One step of a run, on one screen: claim it, do its work, write it down, say what comes next."""

import logging
import secrets

from app.domain.agent import AgentVersion
from app.domain.errors import DatabaseAway, LeaseLost
from app.domain.lease import owner_text
from app.domain.outcome import Answered, Cut, Outcome, Postponed, Refused, Returned, Suspended, Unavailable
from app.domain.run import Claim, Dispatch
from app.domain.status import StepKind, StopCode
from app.engine import report
from app.engine.call_tool import call_tool
from app.engine.keeper import Held
from app.engine.patience import patiently
from app.engine.perform import ask_model
from app.engine.runtime import Runtime
from app.store.lapse import Lapsed

log = logging.getLogger(__name__)

#: How long a step waits before it is offered to another worker when this one has not got its tool.
ELSEWHERE_S = 5.0


def advance(runtime: Runtime, run_id: str, seq: int, *, pid: int, task_id: str) -> list[Dispatch]:
    """Perform one step of a run, if it is there to be claimed.

    Args:
        pid, task_id: who is working, for the owner's text; a parent finds its dead child's claims by them.

    Returns:
        What to dispatch next. Empty when the step was done, taken, or not due: messages may be lost, doubled or late.
    """
    owner = owner_text(runtime.process, pid, task_id, secrets.token_hex(4))
    claimed_at = runtime.keeper.clock()
    claim = runtime.store.claim_step(run_id, seq, owner)
    if claim is None:
        return []
    report.claimed(runtime, claim)
    limit_s = min(claim.seconds_left, claim.timeout_s or claim.seconds_left)
    try:
        with runtime.keeper.hold(claim.lease, claimed_at=claimed_at, limit_s=limit_s) as held:
            return _perform_and_checkpoint(runtime, claim, held)
    except LeaseLost as lost:
        log.warning("%s: its result is dropped", lost)
        return []
    except Exception:
        # Not the model's failure nor the tool's, but ours or the database's. Counted, so that it cannot go on for ever.
        log.exception("run=%s seq=%s could not be finished; its claim is given up", run_id[:8], seq)
        return _give_up(runtime, Lapsed(run_id, seq, owner, when_due=False))


def _give_up(runtime: Runtime, lapsed: Lapsed) -> list[Dispatch]:
    try:
        return runtime.store.lapse_step(lapsed) or []
    except DatabaseAway:
        log.warning("run=%s seq=%s stays claimed until its lease lapses", lapsed.run_id[:8], lapsed.seq)
        return []


def _perform_and_checkpoint(runtime: Runtime, claim: Claim, held: Held) -> list[Dispatch]:
    if claim.kind is StepKind.MODEL:
        asked = ask_model(runtime, claim, held)
        outcome, agent = asked.outcome, asked.agent
    else:
        outcome, agent = call_tool(runtime, claim, held), None
    opened = patiently(runtime, held, lambda: _checkpoint(runtime, claim, outcome, agent))
    report.checkpointed(runtime, claim, outcome, opened)
    return opened


def _checkpoint(runtime: Runtime, claim: Claim, outcome: Outcome, agent: AgentVersion | None) -> list[Dispatch]:
    store, lease = runtime.store, claim.lease
    match outcome:
        case Answered():
            assert agent is not None
            return store.finish_model_step(lease, outcome, agent)
        case Returned():
            return store.finish_tool_step(lease, outcome)
        case Postponed():
            return store.postpone_step(lease, outcome)
        case Suspended():
            return store.suspend_step(lease, outcome)
        case Refused():
            return store.refuse_model_step(lease, outcome)
        case Cut():
            return store.cut_step(lease, outcome)
        case Unavailable():
            return _elsewhere(runtime, claim, outcome)


def _elsewhere(runtime: Runtime, claim: Claim, unavailable: Unavailable) -> list[Dispatch]:
    """Release the step for another worker; after a settable time the run fails."""
    # Not by age alone: a step that waited for a person, or for any worker at all, is old when it is first claimed.
    if min(claim.age_s, claim.lease.attempt * ELSEWHERE_S) > runtime.tool_unavailable_s:
        runtime.store.stop_run(claim.lease.run_id, StopCode.TOOL_UNAVAILABLE, unavailable.reason)
        return runtime.store.cut_step(claim.lease, Cut(tries=claim.tries, latency_ms=0))
    return runtime.store.postpone_step(claim.lease, Postponed(ELSEWHERE_S, claim.tries, "tool_unavailable"))
