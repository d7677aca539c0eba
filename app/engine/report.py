"""The engine's log lines: when a tool starts, when a step is written down, and when a run ends."""

import logging

from app.domain.outcome import Answered, Cut, Outcome, Postponed, Refused, Returned, Suspended, Unavailable
from app.domain.pricing import usd
from app.domain.run import Claim, Dispatch
from app.domain.status import ShownStatus, StepKind
from app.engine.runtime import Runtime

log = logging.getLogger("durable.step")


def claimed(runtime: Runtime, claim: Claim) -> None:
    """A tool starts, or a step is resumed after a claim that lapsed."""
    lease = claim.lease
    resumed = f"resumed at seq={lease.seq}; " if claim.crashes else ""
    if claim.kind is StepKind.TOOL:
        line = f"{resumed}seq={lease.seq} TOOL {claim.tool_name} id={claim.tool_use_id} started"
        _log(runtime, lease.run_id, line, claim)
    elif resumed:
        _log(runtime, lease.run_id, f"{resumed}seq={lease.seq} MODEL started", claim)


def checkpointed(runtime: Runtime, claim: Claim, outcome: Outcome, opened: list[Dispatch]) -> None:
    """A step is written down; if it opened nothing, the run may have ended with it."""
    lease = claim.lease
    _log(runtime, lease.run_id, f"seq={lease.seq} {_said(claim, outcome)}", claim)
    if opened or isinstance(outcome, Suspended):
        return
    if claim.kind is StepKind.MODEL:
        _ended(runtime, lease.run_id)


def _ended(runtime: Runtime, run_id: str) -> None:
    run = runtime.store.get_run(None, run_id)
    if run.finished_at is None:
        return
    cost = f" cost={usd(run.cost_nano)}usd" if not run.unpriced_calls else ""
    why = "" if run.status is ShownStatus.SUCCEEDED else f" error={run.error_code}"
    _log(runtime, run_id, f"{run.status} tokens={run.tokens_used}{cost}{why}")


def _said(claim: Claim, outcome: Outcome) -> str:
    match outcome:
        case Answered():
            usage = outcome.usage
            return (
                f"MODEL stop={outcome.stop_reason} in={usage.prompt_tokens} out={usage.output_tokens}"
                f" latency={outcome.latency_ms}ms"
            )
        case Returned():
            verb = f"failed ({outcome.error_code})" if outcome.is_error else "done"
            return f"TOOL {claim.tool_name} id={claim.tool_use_id} {verb} {outcome.latency_ms}ms"
        case Postponed():
            return f"{claim.kind} postponed {outcome.wait_s:.1f}s ({outcome.reason}) tries={outcome.tries}"
        case Suspended():
            return f"{claim.kind} waits for a person: {outcome.reason}"
        case Refused():
            return f"MODEL failed {outcome.error_code} after {outcome.tries} tries: {outcome.message[:200]}"
        case Cut():
            return f"{claim.kind} cut after {outcome.latency_ms}ms"
        case Unavailable():
            return f"{claim.kind} released: {outcome.reason}"


def _log(runtime: Runtime, run_id: str, line: str, claim: Claim | None = None) -> None:
    extra: dict[str, object] = {"run_id": run_id, "worker": runtime.node}
    if claim is not None:
        extra |= {"step_seq": claim.lease.seq, "tool_use_id": claim.tool_use_id}
    log.info("run=%s %s", run_id[:8], line, extra=extra)
