"""The model of the keyless demo: it looks for keywords, calls the ticket tools, and answers from their results alone.

Rules: it knows no ticket. What it says about tickets comes from the conversation's own tool_result, word for word.
"""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from app.llm.fake.rules_content import blocks_of
from app.llm.fake.turn import Turn

Body = dict[str, Any]

LIST_TOOL, SLOW_TOOL = "list_tickets", "slow_ticket_report"
_ABOUT_TICKETS = re.compile(r"\b(overdue|tickets?)\b", re.IGNORECASE)
_SLOW = re.compile(r"\b(slow(ly)?|reports?)\b", re.IGNORECASE)
_STATUS = re.compile(r"\b(open|closed|pending|resolved)\b", re.IGNORECASE)
_CUSTOMER = (
    re.compile(r"\b(?:for|of|from|by|customer)\s+(?:customer\s+)?([\w-]+)", re.IGNORECASE),
    re.compile(r"\b(?:does|do|has|have)\s+([\w-]+)\s+have\b", re.IGNORECASE),
    re.compile(r"\b([\w-]+?)(?:'s)?\s+(?:(?:overdue|open|closed|pending|slow)\s+)*tickets?\b", re.IGNORECASE),
)
# Words that stand where a customer might, and are none.
_NO_CUSTOMER = re.compile(
    r"a|about|all|any|are|by|closed|currently|customer|customers|does|due|every|find|for|"
    r"give|has|have|how|i|in|is|it|late|list|many|me|my|now|of|on|open|or|our|overdue|"
    r"pending|please|report|resolved|run|show|slow|slowly|some|status|still|support|tell|"
    r"that|the|there|these|they|this|ticket|tickets|to|today|us|we|what|which|with|you|"
    r"your"
)
_LONGEST_QUOTE = 600


def answer(body: Body) -> Turn:
    """The turn that follows a valid request: the next tool call, or the final text."""
    latest = next(message for message in reversed(body["messages"]) if message["role"] == "user")
    results = [block for block in blocks_of(latest) if block["type"] == "tool_result"]
    if results:
        return _say("\n".join(_report(result) for result in results))
    question = _question(body)
    tools = {tool["name"]: tool for tool in body.get("tools", ()) if tool.get("type") in (None, "custom")}
    if SLOW_TOOL in tools and _SLOW.search(question):
        return _call(tools[SLOW_TOOL], {"customer": _customer(question)}, "I will have the slow ticket report made.")
    if LIST_TOOL in tools and _ABOUT_TICKETS.search(question):
        return _call(tools[LIST_TOOL], _filters(question), "I will look the tickets up.")
    return _say(
        "This is the local demo model: it knows a few keywords and no more. Ask it about overdue tickets, such as "
        '"Which acme tickets are overdue?", or set ANTHROPIC_API_KEY to talk to a real model.'
    )


def _say(text: str) -> Turn:
    return Turn(content=[{"type": "text", "text": text}], stop_reason="end_turn")


def _call(tool: Body, arguments: Body, lead: str) -> Turn:
    """A call with those arguments that were found in the question and that the tool takes."""
    properties = tool["input_schema"].get("properties", {})
    given = {name: value for name, value in arguments.items() if value is not None and name in properties}
    call = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": tool["name"], "input": given}
    return Turn(content=[{"type": "text", "text": lead}, call], stop_reason="tool_use")


def _question(body: Body) -> str:
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            texts = [block["text"] for block in blocks_of(message) if block["type"] == "text"]
            if texts:
                return "\n".join(texts)
    return ""


def _filters(question: str) -> Body:
    status = _STATUS.search(question)
    overdue = True if re.search(r"\boverdue\b", question, re.IGNORECASE) else None
    return {"customer": _customer(question), "status": status and status.group(1).lower(), "overdue": overdue}


def _customer(question: str) -> str | None:
    for pattern in _CUSTOMER:
        for found in pattern.finditer(question):
            word = found.group(1).lower()
            if not _NO_CUSTOMER.fullmatch(word):
                return word
    return None


def _report(result: Body) -> str:
    """What one tool result says, in a sentence and a list."""
    text = _text_of(result.get("content", ""))
    if result.get("is_error"):
        return f"The tool could not answer: {_quote(text) or 'it gave no reason'}"
    tickets = _tickets_in(text)
    if tickets is None:
        return f"The tool answered: {_quote(text)}" if text.strip() else "The tool answered nothing."
    if not tickets:
        return "No tickets: the tool found none that fit."
    noun = "ticket fits" if len(tickets) == 1 else "tickets fit"
    return "\n".join([f"{len(tickets)} {noun}:", *(_line(ticket) for ticket in tickets)])


def _line(ticket: Body) -> str:
    parts = [
        f"{ticket['customer']}:" if ticket.get("customer") else None,
        str(ticket["subject"]) if ticket.get("subject") else None,
        f"(due {ticket['due_on']})" if ticket.get("due_on") else None,
        f"[{ticket['status']}]" if ticket.get("status") else None,
    ]
    return " ".join(["-", str(ticket.get("id", "?")), *(part for part in parts if part)])


def _tickets_in(text: str) -> list[Body] | None:
    """The tickets of a JSON list, or of an object with a `tickets` list; None for any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, dict):
        value = value.get("tickets")
    fits = isinstance(value, list) and all(isinstance(ticket, dict) for ticket in value)
    return value if fits else None


def _text_of(content: str | list[Body]) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(parts: list[Body]) -> Iterator[str]:
    yield from (part["text"] for part in parts if part["type"] == "text")


def _quote(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
