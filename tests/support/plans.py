"""The plan that Postgres makes for the statements of a store, caught as they are sent."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, event

from app.store.store import Store

Node = dict[str, Any]


def plans_of(store: Store, call: Callable[[], object]) -> list[Node]:
    """Run `call` and explain each SELECT, UPDATE or DELETE that it sent, with the same parameters."""
    sent: list[tuple[str, Any]] = []

    def note(connection: Connection, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            sent.append((statement, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(store.engine, "before_cursor_execute", note)
    with store.engine.connect() as connection:
        return [_explain(connection, *each) for each in sent]


def _explain(connection: Connection, statement: str, parameters: Any) -> Node:
    said = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
    plan: Node = (json.loads(said) if isinstance(said, str) else said)[0]["Plan"]
    return plan


def nodes(plan: Node) -> Iterator[Node]:
    """The plan's nodes, from the top."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def index_conditions(plan: Node) -> dict[str, str]:
    """Each index that is used, with the condition that bounds what is read of it."""
    return {n["Index Name"]: n.get("Index Cond", "") for n in nodes(plan) if "Index Name" in n}


def scanned(plan: Node) -> list[str]:
    """Tables that are read from end to end."""
    return [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"]
