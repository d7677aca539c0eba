"""How migrations run: one transaction each, one migrating process at a time, and no long wait behind anybody's lock.

A schema change that waits for a lock makes every later query on that table wait behind it. So it gives up in seconds
and says so; running it again is harmless.
"""

import logging
from typing import Any

from sqlalchemy import Connection, text

from alembic import context
from app.config import settings
from app.domain.errors import ConfigError
from app.store.dialect import open_engine
from app.store.tables import metadata

#: Any number, as long as nothing else in the database locks it.
MIGRATION_LOCK = 7_263_001

_OPTIONS: dict[str, Any] = {
    "target_metadata": metadata,
    "transaction_per_migration": True,
    "render_as_batch": True,  # SQLite can alter next to nothing in place
    "compare_server_default": True,
}


def database_url() -> str:
    """The caller's URL, or the one in the settings."""
    url: str = context.config.attributes.get("url") or settings().database_url
    if not url:
        raise ConfigError("DATABASE_URL is not set")
    return url


def run_offline() -> None:
    """Print the SQL instead of running it."""
    context.configure(dialect_name="postgresql", literal_binds=True, **_OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Migrate the database."""
    engine = open_engine(database_url(), pool_size=1)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                _take_turns(connection)
            context.configure(connection=connection, **_OPTIONS)
            with context.begin_transaction():
                context.run_migrations()
    finally:
        engine.dispose()


def _take_turns(connection: Connection) -> None:
    """Wait for another migration to end, then set the limits of our own. The lock goes when the connection does."""
    connection.execute(text("SET lock_timeout = '30s'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
    connection.execute(text("SET lock_timeout = '3s'"))
    connection.execute(text("SET statement_timeout = 0"))
    # Or Alembic would take this for the caller's transaction and never commit its own.
    connection.commit()


logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
if context.is_offline_mode():
    run_offline()
else:
    run_online()
