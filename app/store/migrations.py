"""The schema's history: which migration is the newest, and bringing a database up to it.

The migrations are in alembic/versions; alembic/env.py says how they run. Alembic is imported only when it is needed.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app.domain.errors import AgentError, DatabaseAway
from app.store.dialect import open_engine
from app.store.store import Store

if TYPE_CHECKING:
    from alembic.config import Config

_INI = Path(__file__).resolve().parents[2] / "alembic.ini"

# Who has been in a transaction for longest: most likely the one that stands in the way.
_OPEN_TRANSACTIONS = text(
    "SELECT pid, coalesce(application_name, ''), coalesce(state, ''),"
    " CAST(extract(epoch FROM now() - xact_start) AS int)"
    " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    " ORDER BY xact_start LIMIT 3"
)


class MigrationBlocked(AgentError):
    """Somebody held a lock for longer than a migration may wait; the migration that waited was rolled back."""


def alembic_config(url: str = "") -> "Config":
    """Alembic's own settings, for this database."""
    from alembic.config import Config

    config = Config(str(_INI))
    config.attributes["url"] = url
    return config


@functools.cache
def head() -> str | None:
    """The newest migration, read from the files; no database is asked."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def upgrade(url: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Bring a database up to a revision; harmless when it is there already.

    Returns:
        The revision before and after; None stands for an empty database.

    Raises:
        MigrationBlocked: a lock did not come free within seconds.
        DBAPIError: the database could not be asked, or refused a statement.
    """
    from alembic import command

    before = current(url)
    try:
        command.upgrade(alembic_config(url), revision)
    except OperationalError as error:
        if not _is_lock_timeout(error):
            raise
        raise MigrationBlocked(_blocked_text(url)) from error
    return before, current(url)


def current(url: str) -> str | None:
    """The revision that a database is at."""
    store = Store(open_engine(url, pool_size=1))
    try:
        return store.ping()
    except DatabaseAway as away:
        if not isinstance(away.__cause__, OperationalError) or not _is_lock_timeout(away.__cause__):
            raise
        raise MigrationBlocked(_blocked_text(url)) from away
    finally:
        store.close()


def _is_lock_timeout(error: OperationalError) -> bool:
    return getattr(error.orig, "sqlstate", None) == "55P03" or "database is locked" in str(error.orig)


def _blocked_text(url: str) -> str:
    said = "a lock did not come free in time, so the migration gave up; end whoever holds it and run this again"
    engine = open_engine(url, pool_size=1)
    try:
        if engine.dialect.name != "postgresql":
            return said
        with engine.connect() as connection:
            rows = connection.execute(_OPEN_TRANSACTIONS).all()
    finally:
        engine.dispose()
    holders = [f"pid {pid} ({', '.join(filter(None, (name, state)))}) for {age_s}s" for pid, name, state, age_s in rows]
    return f"{said}. In a transaction now: {'; '.join(holders) or 'nobody'}"
