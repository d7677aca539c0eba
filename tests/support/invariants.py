"""The invariants of a database, as queries that find violations, and a store that asks them after each of its verbs.

Every query returns the ids of runs that break a rule. What no portable SQL can say (how many calls an answer holds) is
counted in Python.
"""

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Engine, text

from app.domain.blocks import tool_uses
from app.domain.lease import Lease
from app.domain.run import Claim, RenewedLease
from app.store.store import Store

T = TypeVar("T")

_OPEN = "('READY', 'STARTED', 'WAITING')"
_STEPS = "SELECT count(*) FROM run_step s WHERE s.run_id = r.id"

QUERIES = {
    "I1 a run's open_steps is the number of its open steps": f"""
        SELECT r.id FROM run r WHERE r.open_steps <> ({_STEPS} AND s.status IN {_OPEN})""",
    "I1 the last answer of an active run opened something": """
        SELECT r.id FROM run r JOIN run_step m ON m.run_id = r.id AND m.kind = 'MODEL' AND m.status = 'DONE'
        WHERE r.status = 'ACTIVE' AND NOT EXISTS (SELECT 1 FROM run_step n WHERE n.run_id = r.id AND n.seq > m.seq)""",
    "I2 a started step has an owner and a claim, an unclaimed one no owner": """
        SELECT run_id FROM run_step WHERE (status = 'STARTED') <> (locked_by IS NOT NULL AND finished_at IS NULL)
        OR (status = 'STARTED' AND attempt = 0)""",
    "I3 the next model step opens only when the turn is final": f"""
        SELECT t.run_id FROM run_step t JOIN run_step m ON m.run_id = t.run_id AND m.kind = 'MODEL' AND m.turn > t.turn
        WHERE t.status IN {_OPEN}""",
    "I3 every turn has exactly one model step": """
        SELECT run_id FROM run_step GROUP BY run_id, turn
        HAVING sum(CASE WHEN kind = 'MODEL' THEN 1 ELSE 0 END) <> 1""",
    "I3 after a turn with tools at most one model step opens, and one does unless the run is over": f"""
        SELECT r.id FROM run r JOIN run_step t ON t.run_id = r.id AND t.kind = 'TOOL'
        WHERE r.status = 'ACTIVE'
        AND NOT EXISTS (SELECT 1 FROM run_step m WHERE m.run_id = r.id AND m.turn = t.turn + 1)
        AND NOT EXISTS (SELECT 1 FROM run_step o WHERE o.run_id = r.id AND o.turn = t.turn AND o.status IN {_OPEN})""",
    "I4 tokens are the sum over the steps": """
        SELECT r.id FROM run r WHERE r.tokens_used <> (SELECT coalesce(sum(s.input_tokens + s.output_tokens
        + s.cache_write_tokens + s.cache_read_tokens), 0) FROM run_step s WHERE s.run_id = r.id)
        OR r.wasted_tokens <> (SELECT coalesce(sum(s.wasted_tokens), 0) FROM run_step s WHERE s.run_id = r.id)""",
    "I4 cost is the sum over the steps": f"""
        SELECT r.id FROM run r
        WHERE r.cost_nano <> (SELECT coalesce(sum(s.cost_nano), 0) FROM run_step s WHERE s.run_id = r.id)
        OR r.wasted_cost_nano <> (SELECT coalesce(sum(s.wasted_cost_nano), 0) FROM run_step s WHERE s.run_id = r.id)
        OR r.unpriced_calls <> ({_STEPS} AND s.kind = 'MODEL' AND s.status = 'DONE' AND s.cost_nano IS NULL)""",
    "I5 seq is gapless from 1": """
        SELECT r.id FROM run r LEFT JOIN run_step s ON s.run_id = r.id GROUP BY r.id, r.next_seq
        HAVING count(s.seq) <> r.next_seq - 1 OR max(s.seq) <> r.next_seq - 1 OR min(s.seq) <> 1""",
    "I6 an active run has an open step": f"""
        SELECT r.id FROM run r WHERE r.status = 'ACTIVE' AND ({_STEPS} AND s.status IN {_OPEN}) = 0""",
    "I7 a terminal run has no open step": f"""
        SELECT r.id FROM run r WHERE r.status <> 'ACTIVE' AND ({_STEPS} AND s.status IN {_OPEN}) > 0""",
    "I8 a tool step belongs to an answer that stopped for tools": """
        SELECT t.run_id FROM run_step t WHERE t.kind = 'TOOL'
        AND NOT EXISTS (SELECT 1 FROM run_step m WHERE m.run_id = t.run_id AND m.turn = t.turn AND m.kind = 'MODEL'
        AND m.status = 'DONE' AND m.stop_reason = 'tool_use')""",
    "I9 a tool that may not repeat runs again only after a verdict on each lapse": """
        SELECT s.run_id FROM run_step s WHERE s.effect IN ('UNSAFE', 'VERIFIED') AND s.status IN ('READY', 'STARTED')
        AND s.crashes > (SELECT count(*) FROM approval a WHERE a.run_id = s.run_id AND a.seq = s.seq
        AND a.kind = 'in_doubt' AND a.verdict = 'run')""",
    "a waiting step has one pending question, and no other step has one": """
        SELECT s.run_id FROM run_step s WHERE (CASE WHEN s.status = 'WAITING' THEN 1 ELSE 0 END) <> (SELECT count(*)
        FROM approval a WHERE a.run_id = s.run_id AND a.seq = s.seq AND a.status = 'PENDING')""",
    "a stopping run has nothing that could still be claimed": """
        SELECT r.id FROM run r JOIN run_step s ON s.run_id = r.id
        WHERE r.stop_code IS NOT NULL AND s.status IN ('READY', 'WAITING')""",
}


def violations(connection: Connection) -> list[str]:
    """Each broken rule with the ids of the runs that break it; empty when all is well."""
    broken = [f"{rule}: {ids}" for rule, query in QUERIES.items() if (ids := _ids(connection, query))]
    return broken + _wrong_turns(connection)


def check_invariants(engine: Engine) -> None:
    """Fail if any invariant is broken, as seen by one snapshot of the database."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.begin() as connection:
        broken = violations(connection)
    assert not broken, "\n".join(broken)


def _ids(connection: Connection, query: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(text(query))]


_TURNS = """
    SELECT m.run_id, m.seq, m.response, m.stop_reason, r.status,
    (SELECT count(*) FROM run_step t WHERE t.run_id = m.run_id AND t.turn = m.turn AND t.kind = 'TOOL') AS tools
    FROM run_step m JOIN run r ON r.id = m.run_id
    WHERE m.kind = 'MODEL' AND m.status = 'DONE'"""


def _wrong_turns(connection: Connection) -> list[str]:
    """I3: one tool step per call of a turn. A run that ended instead of opening them has none of them."""
    wrong = []
    for run_id, seq, response, stop_reason, status, tools in connection.execute(text(_TURNS)):
        calls = len(tool_uses(json.loads(response))) if stop_reason == "tool_use" else 0
        if tools != calls and not (tools == 0 and status != "ACTIVE"):
            wrong.append(f"I3 all tools of a turn or none: run {run_id} step {seq} asked for {calls} and got {tools}")
    return wrong


class AuditedStore(Store):
    """A store that checks the invariants after everything it writes."""

    def claim_step(self, run_id: str, seq: int, owner: str) -> Claim | None:
        """As in `Store`, then the check."""
        claim = super().claim_step(run_id, seq, owner)
        check_invariants(self.engine)
        return claim

    def renew_leases(self, leases: Sequence[Lease], due_leases: Sequence[Lease]) -> list[RenewedLease]:
        """As in `Store`, then the check."""
        renewed = super().renew_leases(leases, due_leases)
        check_invariants(self.engine)
        return renewed

    def _verb(self, work: Callable[[Connection], T]) -> T:
        result = super()._verb(work)
        check_invariants(self.engine)
        return result
