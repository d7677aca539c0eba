"""Migrations make the schema that app/store/tables.py describes, on both databases, and wait for nobody for long."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, text

from alembic import command
from app.store.dialect import open_engine
from app.store.migrations import MigrationBlocked, alembic_config, current, head, upgrade
from app.store.tables import metadata
from tests.support.services import PostgresServer

NAMES = {
    "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases of one kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
        return
    running: PostgresServer = request.getfixturevalue("postgres_server")
    yield running.create_database(), running.create_database()


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> str:
    """A Postgres database without our schema."""
    return postgres_server.create_database()


def schema_of(engine: Engine) -> dict[str, Any]:
    """Tables, columns, keys, checks and indexes, as the database itself spells them."""
    found: dict[str, Any] = {}
    look = inspect(engine)
    for table in sorted(set(look.get_table_names()) - {"alembic_version"}):
        found[table] = {
            "columns": {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in look.get_columns(table)},
            "primary key": look.get_pk_constraint(table)["constrained_columns"],
            "foreign keys": sorted((k["name"] or "", k["referred_table"]) for k in look.get_foreign_keys(table)),
            "checks": {c["name"]: c["sqltext"] for c in look.get_check_constraints(table)},
        }
    with engine.connect() as connection:
        rows = connection.execute(text(NAMES[engine.dialect.name])).all()
    found["indexes"] = {name: sql for name, sql in rows if "alembic" not in name}
    return found


def test_alembic_sees_no_difference_between_the_migrated_schema_and_the_tables(urls: tuple[str, str]) -> None:
    upgrade(urls[0])
    engine = open_engine(urls[0])
    # SQLite cannot tell Alembic about descending indexes; the next test compares all of them, letter by letter.
    seen = {"include_object": lambda thing, name, kind, *_: kind != "index" or "sqlite" not in urls[0]}
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=seen), metadata) == []
    engine.dispose()


def test_migrated_schema_is_the_one_that_the_tables_make_down_to_every_check_and_index(urls: tuple[str, str]) -> None:
    migrated, made = open_engine(urls[0]), open_engine(urls[1])
    upgrade(urls[0])
    metadata.create_all(made)
    assert schema_of(migrated) == schema_of(made)
    migrated.dispose()
    made.dispose()


def test_migrating_twice_is_harmless_and_says_from_where_to_where(urls: tuple[str, str]) -> None:
    assert upgrade(urls[0]) == (None, head())
    assert upgrade(urls[0]) == (head(), head())


def test_downgrade_leaves_nothing_behind_and_upgrade_works_again(urls: tuple[str, str]) -> None:
    upgrade(urls[0])
    command.downgrade(alembic_config(urls[0]), "base")
    engine = open_engine(urls[0])
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    assert upgrade(urls[0]) == (None, head())


def test_two_migrations_at_once_both_end_at_the_head(empty_url: str) -> None:
    # Alembic keeps its context in the process, so two processes, as it really happens.
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(_migrate_in_a_process, [empty_url, empty_url]))
    assert results == [0, 0]
    assert current(empty_url) == head()


def _migrate_in_a_process(url: str) -> int:
    code = "import sys; from app.store.migrations import upgrade; upgrade(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", code, url], check=False, timeout=60).returncode


def test_migration_behind_an_idle_transaction_gives_up_in_seconds_and_names_it(empty_url: str) -> None:
    blocker = create_engine(empty_url, connect_args={"application_name": "forgotten psql"})
    with blocker.connect() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)"))
        connection.commit()
        connection.execute(text("SELECT * FROM alembic_version"))
        connection.execute(text("LOCK TABLE alembic_version IN SHARE MODE"))
        with pytest.raises(MigrationBlocked, match=r"forgotten psql.*idle in transaction"):
            upgrade(empty_url)
        assert inspect(connection).get_table_names() == ["alembic_version"]
        connection.commit()
    assert upgrade(empty_url) == (None, head())
    blocker.dispose()
