"""`durable migrate`: bring the database up to this version's schema."""

import click
from sqlalchemy.exc import DBAPIError

from app.cli.failure import Failure
from app.cli.output import say
from app.cli.place import database_url
from app.config import settings
from app.domain.errors import DatabaseAway
from app.store.migrations import upgrade


@click.command()
def migrate() -> None:
    """Bring the database up to date. Harmless when it is; gives up in seconds when somebody holds a lock on it."""
    try:
        before, after = upgrade(database_url(settings()))
    except (DatabaseAway, DBAPIError) as error:
        raise Failure(f"the database cannot be migrated: {getattr(error, 'orig', error)}") from error
    say(f"database is at {after} already" if before == after else f"database migrated: {before or 'empty'} -> {after}")
