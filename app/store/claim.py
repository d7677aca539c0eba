"""Who gets a step: one UPDATE by primary key, and what a model step reads afterwards.

A claim takes no run lock and asks nothing about the run: a terminal run has no READY step.
"""

from sqlalchemy import Connection, bindparam, case, func, literal, select, update

from app.domain.agent import AgentVersion
from app.domain.effect import Effect
from app.domain.lease import Lease
from app.domain.replay import PastStep
from app.domain.run import Claim, History
from app.domain.status import FINAL_STEP_STATUSES, StepKind, StepStatus
from app.store.dialect import after, now, relax_commit, seconds_until
from app.store.tables import agent_version, run, run_step

_RETURNED = (
    run_step.c.kind,
    run_step.c.turn,
    run_step.c.attempt,
    run_step.c.tries,
    run_step.c.crashes,
    run_step.c.tool_use_id,
    run_step.c.tool_name,
    run_step.c.tool_input,
    run_step.c.effect,
    run_step.c.timeout_s,
    seconds_until(run_step.c.created_at).label("opened_in_s"),
    select(seconds_until(run.c.deadline_at))
    .where(run.c.id == run_step.c.run_id)
    .scalar_subquery()
    .label("seconds_left"),
)
_CLAIM = (
    update(run_step)
    .where(
        (run_step.c.run_id == bindparam("the_run"))
        & (run_step.c.seq == bindparam("the_seq"))
        & (run_step.c.status == StepStatus.READY)
        & (run_step.c.run_at <= now())
    )
    .values(
        status=StepStatus.STARTED,
        attempt=run_step.c.attempt + 1,
        locked_by=bindparam("owner"),
        started_at=now(),
        due_at=after(bindparam("lease_s")),
        suspect_at=None,
    )
    # Losing the claim of a model step in a crash of the database costs one model call. The claim of a tool step must
    # be on disk before the tool runs, or nobody would know that it ran.
    .returning(*_RETURNED, case((run_step.c.kind == StepKind.MODEL, relax_commit()), else_=literal("")))
)
_OURS = select(*_RETURNED).where(
    (run_step.c.run_id == bindparam("the_run"))
    & (run_step.c.seq == bindparam("the_seq"))
    & (run_step.c.status == StepStatus.STARTED)
    & (run_step.c.locked_by == bindparam("owner"))
)


def claim_step(
    connection: Connection, run_id: str, seq: int, *, owner: str, lease_s: float, again: bool
) -> Claim | None:
    """READY to STARTED for `owner`, in one statement; None when there is nothing to claim.

    Args:
        again: the same claim was sent before and its answer was lost: look first whether it went through.
    """
    where = {"the_run": run_id, "the_seq": seq, "owner": owner}
    row = connection.execute(_OURS, where).first() if again else None
    row = row or connection.execute(_CLAIM, {**where, "lease_s": lease_s}).first()
    if row is None:
        return None
    return Claim(
        lease=Lease(run_id, seq, row.attempt, owner),
        kind=StepKind(row.kind),
        turn=row.turn,
        tries=row.tries,
        crashes=row.crashes,
        seconds_left=row.seconds_left,
        age_s=-row.opened_in_s,
        tool_use_id=row.tool_use_id,
        tool_name=row.tool_name,
        tool_input=row.tool_input,
        effect=Effect(row.effect) if row.effect else None,
        timeout_s=row.timeout_s,
    )


# What earlier steps used, not what the run has used by now: the request of a step must come out the same at any time.
_USED_BEFORE = (
    select(
        func.coalesce(
            func.sum(
                run_step.c.input_tokens
                + run_step.c.output_tokens
                + run_step.c.cache_write_tokens
                + run_step.c.cache_read_tokens
                + run_step.c.wasted_tokens
            ),
            0,
        )
    )
    .where((run_step.c.run_id == bindparam("the_run")) & (run_step.c.seq < bindparam("before_seq")))
    .scalar_subquery()
)
_RUN = (
    select(run.c.input, run.c.token_budget - _USED_BEFORE, agent_version.c.body)
    .join(agent_version, agent_version.c.id == run.c.agent_version_id)
    .where(run.c.id == bindparam("the_run"))
)
_PAST = (
    select(
        run_step.c.seq,
        run_step.c.turn,
        run_step.c.kind,
        run_step.c.status,
        run_step.c.response,
        run_step.c.tool_use_id,
        run_step.c.result,
        run_step.c.is_error,
    )
    .where(
        (run_step.c.run_id == bindparam("the_run"))
        & (run_step.c.seq < bindparam("before_seq"))
        & run_step.c.status.in_([status.value for status in FINAL_STEP_STATUSES])
    )
    .order_by(run_step.c.seq)
)


def read_history(connection: Connection, run_id: str, before_seq: int) -> History:
    """The frozen agent, the input and every final step before `before_seq`: immutable, so read without a lock."""
    where = {"the_run": run_id, "before_seq": before_seq}
    run_input, tokens_left, body = connection.execute(_RUN, where).one()
    rows = connection.execute(_PAST, where)
    steps = tuple(
        PastStep(seq, turn, StepKind(kind), StepStatus(status), response, tool_use_id, result, bool(is_error))
        for seq, turn, kind, status, response, tool_use_id, result, is_error in rows
    )
    return History(AgentVersion.from_body(body), run_input, steps, int(tokens_left))
