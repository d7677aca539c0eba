"""APIs to test."""

from collections.abc import Iterator

import pytest

from app.store.dialect import open_engine
from app.store.store import Store
from tests.support.api_site import Site, site_over


@pytest.fixture
def site(store: Store) -> Site:
    """The API on each database in turn."""
    return site_over(store, max_timeout_seconds=3600, max_steps=40, max_body_bytes=65_536)


@pytest.fixture
def sqlite_site(sqlite_store: Store) -> Site:
    """The API on SQLite only, for what does not depend on the database."""
    return site_over(sqlite_store, max_timeout_seconds=3600, max_steps=40, max_body_bytes=65_536)


@pytest.fixture
def away_site() -> Iterator[Site]:
    """The API over a Postgres that nobody answers for."""
    store = Store(open_engine("postgresql://nobody:hidden@127.0.0.1:1/none"))
    yield site_over(store)
    store.close()
