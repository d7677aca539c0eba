"""The wiring and its settings: what is set arrives where it is used, and what is wrong is said in one sentence."""

import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.pool import NullPool

from app.bootstrap import build_runtime, build_store
from app.config import Settings, price_book, settings
from app.domain.errors import CallCut, ConfigError, LlmError
from app.domain.status import ShownStatus
from app.engine.drive import LocalDispatcher, drive
from app.engine.runtime import Runtime
from app.engine.submit import submit
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.scripted import ScriptedModel
from app.store.tables import metadata
from tests.support.builders import claimed
from tests.support.engine import task

NOWHERE = "postgresql://user:s3cret@127.0.0.1:9/none"


def _built(model: ScriptedModel | None = None, **changes: Any) -> Runtime:
    return build_runtime(Settings(**{"database_url": NOWHERE} | changes), LocalDispatcher(), model)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Settings.model_fields:
        monkeypatch.delenv(field.upper(), raising=False)
    settings.cache_clear()


def test_building_connects_to_nothing_and_imports_neither_anthropic_nor_flask_nor_celery() -> None:
    script = f"""
import sys
from app.bootstrap import build_runtime
from app.config import Settings
from app.engine.drive import LocalDispatcher
build_runtime(Settings(database_url={NOWHERE!r}), LocalDispatcher())
print(sorted({{"anthropic", "flask", "celery"}} & sys.modules.keys()))
"""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_run_can_be_worked_off_with_what_was_built() -> None:
    runtime = _built(ScriptedModel().then_text("done"), database_url="sqlite://", tools="app.tools.tickets")
    metadata.create_all(runtime.store.engine)
    assert runtime.tools.get("list_tickets") is not None
    assert drive(runtime, submit(runtime, task(runtime))).status is ShownStatus.SUCCEEDED
    runtime.store.close()


def test_settings_arrive_where_they_are_used() -> None:
    runtime = _built(
        lease_s=7.0,
        max_crashes=2,
        tool_result_max_chars=123,
        tool_unavailable_s=45.0,
        sweep_limit=9,
        node_name="node-b",
        tools=" app.tools.tickets:list_tickets , ",
    )
    assert (runtime.store.lease_s, runtime.store.max_crashes) == (7.0, 2)
    assert (runtime.tool_result_max_chars, runtime.tool_unavailable_s, runtime.sweep_limit) == (123, 45.0, 9)
    assert runtime.node == "node-b"
    assert [entry.tool.name for entry in runtime.tools] == ["list_tickets"]


def test_every_process_has_a_name_of_its_own() -> None:
    assert _built().process != _built().process


def test_a_silent_model_is_cut_and_asked_again_as_often_as_is_set() -> None:
    def silent(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        cut = threading.Event()
        cutoff.on_cut(cut.set)
        assert cut.wait(10)
        raise CallCut(cutoff.reason or "")

    model = ScriptedModel().then_call(silent).then_call(silent).then_call(silent)
    runtime = _built(model, model_attempt_s=0.02, model_max_tries=2, model_inline_wait_s=60.0)
    with pytest.raises(LlmError) as caught:
        runtime.model.complete(ModelRequest("claude-test", 10, []), Cutoff())
    assert (caught.value.code, caught.value.tries, model.calls) == ("timeout_error", 2, 2)


def test_the_keeper_renews_while_every_other_connection_is_in_use(postgres_url: str) -> None:
    runtime = _built(ScriptedModel(), database_url=postgres_url, db_pool_size=1)
    run_id = submit(runtime, task(runtime))
    claim = claimed(runtime.store, run_id, 1)
    before = runtime.store.timeline(run_id)
    with runtime.keeper.hold(claim.lease, claimed_at=runtime.keeper.clock() - 25.0, limit_s=60.0) as held:
        ended_at = held.ends_at
        with runtime.store.engine.connect():
            runtime.keeper.renew()
        assert held.ends_at > ended_at + 20.0
        assert held.cutoff.reason is None
    assert runtime.store.timeline(run_id) == before
    for store in (runtime.store, runtime.keeper._store):
        store.close()


def test_a_process_that_forks_keeps_no_connection(postgres_url: str) -> None:
    store = build_store(Settings(database_url=postgres_url), pooled=False)
    store.ping()
    assert isinstance(store.engine.pool, NullPool)
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "user:s3cret@host/db",
        "nonsense://user:s3cret@host/db",
        "postgresql+psycopg2://user:s3cret@host/db",
        "postgresql://user:s3cret@host:port/db",
        "postgresql://user:p@ss:s3cret@host/db",
    ],
)
def test_a_wrong_database_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL is no URL") as caught:
        _built(database_url=url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_missing_database_url_is_said() -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL is not set"):
        _built(database_url="")


def test_each_wrong_setting_is_named_as_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASE_S", "0")
    monkeypatch.setenv("PORT", "web")
    with pytest.raises(ConfigError) as caught:
        settings()
    assert [line.partition(":")[0] for line in str(caught.value).split("; ")] == ["PORT", "LEASE_S"]


@pytest.mark.parametrize(
    "content", [None, b"version = ", b'version = "\xff"', b'version = "x"\n[[price]]\nmodel = "m"']
)
def test_a_price_book_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "prices.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError):
        price_book(Settings(prices_file=path))
