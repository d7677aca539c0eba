"""/healthz says that the process lives; /readyz, whether it can serve.

A broker that is away makes the service degraded, not unready: runs are still taken, and the sweep rings for them later.
"""

from collections.abc import Callable

from flask import Blueprint, Response, jsonify

from app.api.probe import Probe
from app.api.problems import problem
from app.store.migrations import head
from app.store.store import Store


def health_blueprint(store: Store, broker_answers: Callable[[], bool]) -> Blueprint:
    """The two routes."""
    routes = Blueprint("health", __name__)
    database = Probe(lambda: _schema_fault(store.ping(), head()))
    broker = Probe(lambda: None if broker_answers() else "away")

    @routes.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @routes.get("/readyz")
    def readyz() -> Response:
        database_fault, broker_fault = database.look(), broker.look()
        checks = {"database": database_fault or "ok", "broker": broker_fault or "ok"}
        if database_fault:
            return problem(503, f"not ready: database: {database_fault}", checks=checks)
        return jsonify(status="degraded" if broker_fault else "ready", checks=checks)

    return routes


def _schema_fault(current: str | None, newest: str | None) -> str | None:
    if current == newest:
        return None
    return f"at migration {current or 'none'}, this version needs {newest}: run `durable migrate`"
