"""The built-in ticket tools, against an independent reading of the raw data."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.domain.errors import BadArguments, ToolError
from app.tools import ToolCall, tickets
from app.tools.tickets import count, get_ticket, list_tickets, select, slow_ticket_report, tickets_on, work

RAW: list[dict[str, Any]] = json.loads((Path(tickets.__file__).parent / "tickets.json").read_text("utf-8"))
DAY, LATER = date(2025, 11, 3), date(2025, 11, 12)


def due(record: dict[str, Any], today: date) -> date:
    """By search instead of arithmetic: of all dates of the series, the nearest to today, the past one on a tie."""
    anchor, step = date.fromisoformat(record["due_anchor"]), timedelta(days=record["due_every_days"])
    near = round((today - anchor) / step)
    series = [anchor + n * step for n in range(near - 3, near + 4)]
    return min(series, key=lambda day: (abs((day - today).days), day > today))


def overdue_ids(customer: str, today: date) -> list[str]:
    return [
        record["id"]
        for record in RAW
        if record["customer"] == customer and record["status"] == "open" and due(record, today) < today
    ]


def test_the_demo_question_has_a_true_answer_that_changes_with_the_day() -> None:
    answers = []
    for today in (DAY, LATER):
        answer = [ticket["id"] for ticket in select(tickets_on(today), "acme", overdue=True)]
        assert answer == overdue_ids("acme", today)
        answers.append(answer)
    assert answers[0] != answers[1]


def test_every_customer_has_tickets_of_every_sort_on_every_day() -> None:
    """The periods are 14, 21 and 28 days: all comes round after 84."""
    assert {record["due_every_days"] for record in RAW} == {14, 21, 28}
    for n in range(84):
        today = date(2026, 1, 1) + timedelta(days=n)
        for customer in {record["customer"] for record in RAW}:
            mine = select(tickets_on(today), customer)
            late = [ticket["id"] for ticket in mine if ticket["overdue"]]
            assert late == overdue_ids(customer, today) != []
            assert any(ticket["status"] == "open" and not ticket["overdue"] for ticket in mine)
            assert any(ticket["status"] == "closed" for ticket in mine)


def test_a_ticket_due_today_is_not_overdue_yet() -> None:
    record = next(record for record in RAW if record["status"] == "open")
    anchor = date.fromisoformat(record["due_anchor"])
    state = {n: tickets_on(anchor + timedelta(days=n))[RAW.index(record)] for n in (-1, 0, 1)}
    assert [state[n]["overdue"] for n in (-1, 0, 1)] == [False, False, True]
    assert {ticket["due_on"] for ticket in state.values()} == {record["due_anchor"]}


def test_filters_combine_and_closed_tickets_are_never_overdue() -> None:
    everything = select(tickets_on(DAY))
    assert len(everything) == len(RAW) == len({ticket["id"] for ticket in everything})
    assert select(tickets_on(DAY), status="closed", overdue=True) == []
    open_ones, closed = select(tickets_on(DAY), status="open"), select(tickets_on(DAY), status="closed")
    assert len(open_ones) + len(closed) == len(everything)
    assert select(tickets_on(DAY), " ACME ") == [ticket for ticket in everything if ticket["customer"] == "acme"]


def test_an_unknown_customer_is_an_error_that_names_the_known() -> None:
    with pytest.raises(ToolError, match=r"'acmee'.*acme, globex"):
        select(tickets_on(DAY), "acmee")


def test_the_tools_answer_for_today(call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "utc_today", lambda: LATER)
    late = list_tickets.invoke({"customer": "acme", "overdue": True}, call)
    assert [ticket["id"] for ticket in late] == overdue_ids("acme", LATER)
    assert list(late[0]) == ["id", "customer", "subject", "status", "priority", "due_on", "overdue"]
    whole = get_ticket.invoke({"ticket_id": late[0]["id"].lower()}, call)
    assert whole == {**late[0], "detail": whole["detail"]}


def test_an_unknown_ticket_is_an_error_that_says_which_exist(call: ToolCall) -> None:
    with pytest.raises(ToolError, match=r"'T-9'.*T-1001"):
        get_ticket.invoke({"ticket_id": "T-9"}, call)


def test_the_report_counts_every_ticket(call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "utc_today", lambda: DAY)
    report = slow_ticket_report.invoke({"seconds": 1}, call)
    assert report == count(tickets_on(DAY))
    assert sum(row["open"] + row["closed"] for row in report.values()) == len(RAW)
    assert report["acme"]["overdue"] == len(overdue_ids("acme", DAY))


@pytest.mark.parametrize("seconds", [0, 121, -1, 1.5])
def test_the_report_refuses_to_take_forever(call: ToolCall, seconds: float) -> None:
    with pytest.raises(BadArguments, match="seconds"):
        slow_ticket_report.invoke({"seconds": seconds}, call)
    assert slow_ticket_report.definition.timeout_s > 120


def test_the_report_takes_its_time_in_small_pauses_and_heeds_a_stop() -> None:
    pauses: list[float] = []
    work(20, lambda: False, pauses.append)
    assert sum(pauses) == 20
    assert max(pauses) <= 0.5
    with pytest.raises(ToolError, match="stopped"):
        work(20, lambda: len(pauses) >= 90, pauses.append)
    assert len(pauses) == 90
