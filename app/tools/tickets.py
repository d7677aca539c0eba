"""The built-in tools: READ tools over a small bundled set of support tickets, for the demo and as an example.

Rules:
1. A ticket is overdue when it is open and was due before today (UTC).
2. Due dates come round: `due_anchor` plus or minus whole multiples of `due_every_days`, and the one that counts is the
   nearest to today (of two equally near, the past one). So on every day, in any year, some open tickets are overdue
   and others are not, and the answer changes as the days go by. With one fixed date each, all would be overdue soon.
3. The date comes in as an argument everywhere; only `utc_today` looks at the clock.
"""

import functools
import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.errors import ToolError
from app.tools.call import ToolCall
from app.tools.declare import tool

Ticket = dict[str, Any]
Status = Literal["open", "closed"]

_PAUSE_S = 0.25


def utc_today() -> date:
    """The only look at the clock in this room."""
    return datetime.now(UTC).date()


def tickets_on(today: date) -> list[Ticket]:
    """All tickets as they stand on that day, in order of id.

    Each has id, customer, subject, status, priority, detail, due_on (ISO 8601) and overdue.
    """
    return [_ticket_on(today, record) for record in _records()]


def select(
    tickets: list[Ticket], customer: str | None = None, status: Status | None = None, overdue: bool | None = None
) -> list[Ticket]:
    """The tickets that fit, without their details. None leaves a filter out; case does not matter in a customer.

    Raises:
        ToolError: there is no such customer: an empty list would read as good news.
    """
    wanted = None if customer is None else customer.strip().casefold()
    known = sorted({ticket["customer"] for ticket in tickets})
    if wanted is not None and wanted not in known:
        raise ToolError(f"no customer {customer!r}; the customers are {', '.join(known)}")
    return [
        {key: value for key, value in ticket.items() if key != "detail"}
        for ticket in tickets
        if (wanted is None or ticket["customer"] == wanted)
        and (status is None or ticket["status"] == status)
        and (overdue is None or ticket["overdue"] is overdue)
    ]


def count(tickets: list[Ticket]) -> dict[str, dict[str, int]]:
    """Per customer: how many are open, closed and overdue."""
    counts: dict[str, dict[str, int]] = {}
    for ticket in tickets:
        row = counts.setdefault(ticket["customer"], {"open": 0, "closed": 0, "overdue": 0})
        row[ticket["status"]] += 1
        row["overdue"] += ticket["overdue"]
    return counts


def work(seconds: float, stopped: Callable[[], bool], pause: Callable[[float], None] = time.sleep) -> None:
    """Take that many seconds, in small pauses.

    Raises:
        ToolError: the run is being stopped.
    """
    for _ in range(round(seconds / _PAUSE_S)):
        if stopped():
            raise ToolError("stopped before the report was finished")
        pause(_PAUSE_S)


@tool(effect="READ")
def list_tickets(
    customer: str | None = None, status: Status | None = None, overdue: bool | None = None
) -> list[Ticket]:
    """List support tickets as they stand today. Filters that are left out do not filter.

    Args:
        customer: name of the customer, such as acme.
        status: open or closed.
        overdue: true for open tickets that were due before today, false for all others.

    Returns:
        A list of tickets with id, customer, subject, status, priority, due_on and overdue.
    """
    return select(tickets_on(utc_today()), customer, status, overdue)


@tool(effect="READ")
def get_ticket(ticket_id: str) -> Ticket:
    """Look up one support ticket with its details.

    Args:
        ticket_id: the id, such as T-1001.
    """
    tickets = tickets_on(utc_today())
    found = next((ticket for ticket in tickets if ticket["id"] == ticket_id.strip().upper()), None)
    if found is None:
        raise ToolError(f"no ticket {ticket_id[:40]!r}; ids run from {tickets[0]['id']} to {tickets[-1]['id']}")
    return found


@tool(effect="READ", timeout_s=150)
def slow_ticket_report(
    *, customer: str | None = None, seconds: Annotated[int, Field(ge=1, le=120)] = 20, call: ToolCall
) -> dict[str, dict[str, int]]:
    """Count the tickets of each customer. Slow: it takes the seconds that it is given.

    Args:
        customer: only this customer.
        seconds: how long the report takes.
        call: filled in by the runtime.

    Returns:
        For each customer how many tickets are open, closed and overdue.
    """
    tickets = select(tickets_on(utc_today()), customer)
    work(seconds, call.stopped)
    return count(tickets)


@functools.cache
def _records() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(files("app.tools").joinpath("tickets.json").read_text("utf-8"))
    return records


def _ticket_on(today: date, record: dict[str, Any]) -> Ticket:
    period = record["due_every_days"]
    ahead = (date.fromisoformat(record["due_anchor"]) - today).days
    due = today + timedelta(days=(ahead + period // 2) % period - period // 2)
    shown = ("id", "customer", "subject", "status", "priority", "detail")
    overdue = record["status"] == "open" and due < today
    return {**{key: record[key] for key in shown}, "due_on": due.isoformat(), "overdue": overdue}
