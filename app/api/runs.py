"""The routes under /api/runs. Every view is one call of the engine or the store, and its translation."""

from typing import Any

from flask import Blueprint, Response, request, url_for

from app.api.body import read_json
from app.api.problems import BadRequest, Fault
from app.api.query import RunQuery, cursor_after, read_run_query
from app.api.run_request import read_run_request
from app.api.shown import render, render_list, run_fields, step_fields
from app.config import Settings
from app.domain.run import RunView
from app.domain.status import TERMINAL_RUN_STATUSES, ShownStatus, StopCode
from app.engine.runtime import Runtime
from app.engine.submit import UnpricedModel, submit
from app.store.store import Store

TENANT = "default"


def runs_blueprint(runtime: Runtime, settings: Settings) -> Blueprint:
    """The routes, working on this runtime."""
    routes = Blueprint("runs", __name__, url_prefix="/api/runs")
    store = runtime.store

    @routes.post("")
    def post_run() -> Response:
        return _post_run(runtime, settings)

    @routes.get("")
    def list_runs() -> Response:
        return _page(store, read_run_query(request.args))

    @routes.get("/<run_id>")
    def get_run(run_id: str) -> Response:
        return _json(run_fields(store.get_run(TENANT, run_id)))

    @routes.post("/<run_id>/cancel")
    def cancel_run(run_id: str) -> Response:
        before = store.get_run(TENANT, run_id)
        store.stop_run(before.id, StopCode.CANCELLED)
        return _json(run_fields(store.get_run(TENANT, before.id)), 200 if _is_over(before) else 202)

    @routes.get("/<run_id>/timeline")
    def get_timeline(run_id: str) -> Response:
        run = store.get_run(TENANT, run_id)
        steps = store.timeline(run.id)
        return Response(render_list(step_fields(step) for step in steps), content_type="application/json")

    return routes


def _post_run(runtime: Runtime, settings: Settings) -> Response:
    new = read_run_request(read_json(request), settings, runtime.tools.definitions())
    try:
        run_id = submit(runtime, new)
    except UnpricedModel as error:
        raise BadRequest(422, str(error), [Fault("/costBudgetUsd", str(error), "unpriced_model")]) from error
    response = _json({"id": run_id, "status": ShownStatus.QUEUED.value}, 202)
    response.headers["Location"] = url_for("runs.get_run", run_id=run_id)
    return response


def _page(store: Store, query: RunQuery) -> Response:
    # One more than asked for tells whether there is a next page.
    found = store.list_runs(TENANT, status=query.status, after_run=query.after_run, limit=query.limit + 1)
    page = found[: query.limit]
    cursor = cursor_after(page[-1]) if len(found) > query.limit else None
    response = _json({"items": render_list(run_fields(view) for view in page), "nextCursor": cursor})
    if cursor is not None:
        response.headers["Link"] = f'<{query.next_path(request.path, cursor)}>; rel="next"'
    return response


def _is_over(view: RunView) -> bool:
    return view.status.value in TERMINAL_RUN_STATUSES


def _json(fields: dict[str, Any], status: int = 200) -> Response:
    return Response(render(fields), status=status, content_type="application/json")
