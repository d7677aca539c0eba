"""Whether the process lives, and whether it can serve."""

import threading
from collections.abc import Callable

from flask import Flask
from sqlalchemy import text

from app.api.health import health_blueprint
from app.api.probe import Probe
from app.store.dialect import open_engine
from app.store.migrations import head
from app.store.store import Store
from tests.support.api_site import Site


def health_app(store: Store, broker_answers: Callable[[], bool] = lambda: True) -> Flask:
    app = Flask("health")
    app.register_blueprint(health_blueprint(store, broker_answers))
    return app


def test_migrated_database_and_broker_make_it_ready(postgres_store: Store) -> None:
    response = health_app(postgres_store).test_client().get("/readyz")
    assert (response.status_code, response.get_json()["status"]) == (200, "ready")


def test_schema_of_another_version_is_not_ready_and_says_what_to_do(sqlite_store: Store) -> None:
    response = health_app(sqlite_store).test_client().get("/readyz")
    assert response.status_code == 503
    assert "durable migrate" in response.get_json()["detail"]
    with sqlite_store.engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0000')"))
    assert "at migration 0000" in health_app(sqlite_store).test_client().get("/readyz").get_json()["detail"]
    with sqlite_store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": head()})
    assert health_app(sqlite_store).test_client().get("/readyz").status_code == 200


def test_database_that_is_away_is_a_503_while_the_process_is_healthy(away_site: Site) -> None:
    response = away_site.client.get("/readyz")
    assert response.status_code == 503
    assert response.get_json()["checks"]["database"] == "away"
    assert away_site.client.get("/healthz").get_json() == {"status": "ok"}


def test_broker_that_is_away_or_breaks_makes_it_degraded_only(postgres_store: Store) -> None:
    for broker_answers in (lambda: False, lambda: 1 // 0 == 0):
        response = health_app(postgres_store, broker_answers).test_client().get("/readyz")
        assert (response.status_code, response.get_json()["status"]) == (200, "degraded")


def test_check_that_hangs_is_given_up_on_and_never_started_twice() -> None:
    release, begun, now = threading.Event(), [], [100.0]

    def hang() -> None:
        begun.append(1)
        release.wait()

    probe = Probe(hang, patience_s=0.01, clock=lambda: now[0])
    for now[0] in (100.0, 102.0, 104.0):  # an answer would be stale by then
        assert probe.look() == "no answer in time"
    assert len(begun) == 1
    release.set()


def test_finding_is_kept_for_a_second() -> None:
    now, asked = [100.0], []
    probe = Probe(lambda: asked.append(1), clock=lambda: now[0])
    for now[0] in (100.0, 100.9, 101.0, 101.5):
        assert probe.look() is None
    assert len(asked) == 2


def test_probe_of_a_database_opens_on_first_use_only() -> None:
    health_app(Store(open_engine("postgresql://127.0.0.1:1/none"))).test_client().get("/healthz")
