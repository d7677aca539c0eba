"""An API over a real store and the real engine; the model is scripted, and this process works the runs off."""

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from flask.testing import FlaskClient
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import TestResponse

from app.api.app import create_app
from app.config import Settings
from app.domain.pricing import Price, PriceBook
from app.domain.run import Dispatch
from app.engine.advance import advance
from app.engine.drive import LocalDispatcher, drive
from app.engine.keeper import Keeper
from app.engine.runtime import Runtime
from app.llm.retrying import Retrying
from app.llm.scripted import ScriptedModel
from app.store.store import Store
from app.tools.registry import Registry
from tests.support.builders import new_run

RATES = dict.fromkeys(("input", "output", "cache_write_5m", "cache_write_1h", "cache_read"), Decimal("1.5"))


@dataclass(frozen=True)
class Site:
    """The API under test.

    Attributes:
        model: its only model; `claude-priced` has a price.
    """

    client: FlaskClient
    runtime: Runtime
    dispatcher: LocalDispatcher
    model: ScriptedModel
    store: Store

    def post(self, **changes: Any) -> TestResponse:
        """POST /api/runs with a right body, apart from these changes; None leaves a field out."""
        body = {"input": "Hello?", "tokenBudget": 50_000, "timeoutSeconds": 300, **changes}
        return self.client.post("/api/runs", json={key: value for key, value in body.items() if value is not None})

    def new_run(self, **changes: Any) -> str:
        """Post a run and return its id."""
        response = self.post(**changes)
        assert response.status_code == 202, response.text
        return str(response.get_json()["id"])

    def work_off(self, run_id: str) -> dict[str, Any]:
        """Let this process finish the run; returns it as the API shows it."""
        drive(self.runtime, run_id)
        shown: dict[str, Any] = self.client.get(f"/api/runs/{run_id}").get_json()
        return shown

    def run_count(self) -> int:
        """How many runs were ever written down."""
        return len(self.store.list_runs("default", limit=1000))

    def seed(self, count: int) -> list[str]:
        """Runs that were written down without the API, oldest first."""
        return [self.store.create_run(new_run())[0] for _ in range(count)]


def site_over(store: Store, dispatcher: LocalDispatcher | None = None, **settings: Any) -> Site:
    """A site over this store."""
    dispatcher, model = dispatcher or LocalDispatcher(), ScriptedModel()
    runtime = Runtime(
        store=store,
        dispatcher=dispatcher,
        tools=Registry(modules=["app.tools.tickets"], plugins=[]),
        model=Retrying(model, max_tries=1),
        prices=PriceBook("test", (Price("claude-priced", RATES),)),
        keeper=Keeper(store),
        process="node-a.1f",
    )
    chosen = Settings(database_url="sqlite://", model="claude-priced", **settings)
    app = create_app(runtime, chosen, broker_answers=lambda: True)
    return Site(app.test_client(), runtime, dispatcher, model, store)


class Bell(LocalDispatcher):
    """A dispatcher that a thread can wait at."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: queue.Queue[Dispatch | None] = queue.Queue()

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Wake the worker."""
        for dispatch in dispatches:
            self.calls.put(dispatch)


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """No access log."""


@contextmanager
def serving(site: Site) -> Iterator[str]:
    """The API on a real socket; yields its URL."""
    server = make_server("127.0.0.1", 0, site.client.application, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def working(site: Site, bell: Bell) -> Iterator[None]:
    """A worker in a thread, which works off whatever is dispatched."""

    def work() -> None:
        for call in iter(bell.calls.get, None):
            site.dispatcher.dispatch(advance(site.runtime, call.run_id, call.seq, pid=os.getpid(), task_id="-"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        bell.calls.put(None)
        thread.join()
