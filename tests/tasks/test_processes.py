import os

import pytest
from sqlalchemy.pool import NullPool, QueuePool

from app.config import Settings
from app.domain.errors import ConfigError
from tasks import processes
from tests.support.services import PostgresServer


@pytest.fixture
def configured(postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Settings(database_url=postgres_url, tools="")
    monkeypatch.setattr(processes, "settings", lambda: chosen)
    processes._runtime_of.cache_clear()
    processes.parent_runtime.cache_clear()


def test_a_parent_holds_no_connection_that_a_child_could_inherit(configured: None) -> None:
    parent = processes.parent_runtime()
    parent.store.ping()
    assert isinstance(parent.store.engine.pool, NullPool)
    # Nor has what a child would use been touched.
    pool = processes.runtime().store.engine.pool
    assert isinstance(pool, QueuePool)
    assert (pool.checkedin(), pool.checkedout()) == (0, 0)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_child_builds_its_own_runtime(configured: None) -> None:
    parents = processes.runtime().store
    answer, question = os.pipe()
    child = os.fork()
    if child == 0:
        mine = processes.runtime()
        os.write(question, b"own" if mine.store is not parents else b"shared")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(answer, 10) == b"own"
    os.close(answer)
    os.close(question)


def test_a_process_has_one_runtime(configured: None) -> None:
    assert processes.runtime() is processes.runtime()


def test_a_worker_with_a_wrong_setting_ends_instead_of_failing_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> Settings:
        raise ConfigError("DATABASE_URL is not set")

    monkeypatch.setattr(processes, "settings", wrong)
    processes._runtime_of.cache_clear()
    processes.parent_runtime.cache_clear()
    with pytest.raises(SystemExit, match="DATABASE_URL is not set"):
        processes._build()
