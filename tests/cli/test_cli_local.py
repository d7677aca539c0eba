"""Commands that work on this machine: doctor, migrate, tools; and what the doors may not import."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.up.state_dir import UpState, owned, write_up_state
from app.config import Settings, settings
from app.store.migrations import current, head
from tests.support.services import PostgresServer, RedisTestServer

Durable = Callable[..., Result]


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Durable]:
    """Runs a command with these settings and no others."""
    unset = dict.fromkeys((*(name.upper() for name in Settings.model_fields), "CELERY_BROKER_URL"))

    def invoke(*words: str, **env: str) -> Result:
        settings.cache_clear()
        return CliRunner().invoke(main, words, env={**unset, "STATE_DIR": str(tmp_path), **env})

    yield invoke
    settings.cache_clear()


def levels(result: Result) -> dict[str, str]:
    return {found["check"]: found["level"] for found in json.loads(result.stdout)}


def test_doctor_finds_nothing_wrong_with_what_is_complete(
    durable: Durable, postgres_url: str, redis_server: RedisTestServer
) -> None:
    env = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_server.url, "ANTHROPIC_API_KEY": "sk-ant-secret"}
    result = durable("doctor", "-o", "json", **env)
    assert result.exit_code == 0, result.output
    assert set(levels(result).values()) == {"ok"}
    assert "secret" not in durable("doctor", **env).output


def test_doctor_names_every_fault_with_its_cure(durable: Durable, postgres_server: PostgresServer) -> None:
    empty = postgres_server.create_database()
    env = {"DATABASE_URL": empty, "REDIS_URL": "redis://127.0.0.1:1", "TOOLS": "no.such.module", "MODEL": "m-1"}
    result = durable("doctor", "-o", "json", **env)
    assert result.exit_code == 1
    assert levels(result) == {
        "python": "ok",
        "settings": "ok",
        "database": "fail",
        "broker": "fail",
        "model": "warn",
        "tools": "fail",
        "prices": "warn",
    }
    assert all(found["fix"] for found in json.loads(result.stdout) if found["level"] != "ok")
    assert "durable migrate" in durable("doctor", **env).stdout


def test_doctor_on_wrong_settings_says_which(durable: Durable) -> None:
    result = durable("doctor", PORT="many")
    assert result.exit_code == 1
    assert "PORT" in result.stdout


def test_doctor_on_a_database_that_is_away_goes_on_to_the_other_checks(durable: Durable) -> None:
    result = durable("doctor", "-o", "json", DATABASE_URL="postgresql://x:hidden@127.0.0.1:1/x")
    assert (levels(result)["database"], levels(result)["tools"]) == ("fail", "ok")
    assert "hidden" not in result.output


def test_migrate_says_from_where_to_where_and_is_harmless_again(durable: Durable, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    assert durable("migrate", DATABASE_URL=url).stdout == f"database migrated: empty -> {head()}\n"
    again = durable("migrate", DATABASE_URL=url)
    assert (again.exit_code, again.stdout) == (0, f"database is at {head()} already\n")


def test_migrate_takes_the_database_of_a_running_up(durable: Durable, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with owned(tmp_path):
        write_up_state(tmp_path, UpState(1, "", "", "", url, "", ()))
        assert durable("migrate").exit_code == 0
    assert current(url) == head()


def test_migrate_without_a_database_is_wrong_usage(durable: Durable) -> None:
    result = durable("migrate")
    assert result.exit_code == 2
    assert "DATABASE_URL" in result.stderr


def test_migrate_of_a_database_that_is_away_fails_with_a_sentence(durable: Durable) -> None:
    result = durable("migrate", DATABASE_URL="postgresql://x:hidden@127.0.0.1:1/x")
    assert result.exit_code == 1
    assert "cannot be migrated" in result.stderr
    assert "Traceback" not in result.output
    assert "hidden" not in result.output


def test_tools_list_shows_the_rules_of_each_tool(durable: Durable) -> None:
    result = durable("tools", "list", "-o", "json")
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)["tools"]}
    assert rows["list_tickets"]["effect"] == "READ"
    assert rows["list_tickets"]["source"] == "TOOLS app.tools.tickets"
    assert "slow_ticket_report" in durable("tools", "list").stdout


def test_tools_that_fail_to_load_are_shown_beside_the_others(durable: Durable) -> None:
    result = durable("tools", "list", TOOLS="app.tools.tickets,no.such.module")
    assert result.exit_code == 1
    assert "list_tickets" in result.stdout
    assert "no.such.module" in result.stderr


@pytest.mark.parametrize("module", ["app.api.app", "app.cli.runs", "app.cli.doctor", "app.cli.migrate", "app.wsgi"])
def test_doors_do_not_import_what_is_dear(module: str, tmp_path: Path) -> None:
    # The API must start fast and small; only app.wsgi, which plugs it in, may know Celery.
    code = f"import sys, {module}; print([m for m in ('anthropic', 'celery', 'alembic') if m in sys.modules])"
    env = {"PATH": "/usr/bin:/bin", "DATABASE_URL": f"sqlite:///{tmp_path}/x.db", "REDIS_URL": "redis://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == ("['celery']\n" if module == "app.wsgi" else "[]\n"), done.stderr
