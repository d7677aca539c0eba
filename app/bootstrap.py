"""The wiring: the only place that makes a Store, a model client or a Runtime."""

import secrets

from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from app.config import Settings, price_book
from app.domain.errors import ConfigError
from app.engine.keeper import Keeper
from app.engine.runtime import Dispatcher, Runtime
from app.llm.anthropic_client import BASE_URL, AnthropicClient
from app.llm.client import ModelClient
from app.llm.retrying import Retrying
from app.llm.time_limited import TimeLimited
from app.store.dialect import open_engine
from app.store.store import Store
from app.tools.registry import Registry


def build_runtime(settings: Settings, dispatcher: Dispatcher, client: ModelClient | None = None) -> Runtime:
    """Everything one process needs. Connects to nothing yet, and does not import anthropic yet.

    Args:
        dispatcher: how wake-ups travel.
        client: another model client than Anthropic's.

    Raises:
        ConfigError: a setting is missing or wrong.
    """
    store = build_store(settings)
    return Runtime(
        store=store,
        dispatcher=dispatcher,
        tools=Registry(modules=settings.tool_modules()),
        model=Retrying(
            TimeLimited(client or _anthropic(settings), settings.model_attempt_s),
            max_tries=settings.model_max_tries,
            inline_max_s=settings.model_inline_wait_s,
        ),
        prices=price_book(settings),
        keeper=Keeper(store if _is_sqlite(settings) else build_store(settings, pool_size=1)),
        process=f"{settings.node_name}.{secrets.token_hex(4)}",
        tool_result_max_chars=settings.tool_result_max_chars,
        tool_unavailable_s=settings.tool_unavailable_s,
        sweep_limit=settings.sweep_limit,
    )


def build_store(settings: Settings, *, pool_size: int | None = None, pooled: bool = True) -> Store:
    """A store on the database that the settings name.

    Args:
        pool_size: other than the setting's.
        pooled: False for a process that forks: a connection inherited by a child would be read by both.

    Raises:
        ConfigError: DATABASE_URL is not set, or no URL of a database that we know.
    """
    if not settings.database_url:
        raise ConfigError("DATABASE_URL is not set; `make up` starts a database by itself")
    size = pool_size or settings.db_pool_size
    try:
        engine = open_engine(settings.database_url, pool_size=size, pool=None if pooled else NullPool)
    except (ArgumentError, ImportError, ValueError):
        # Without the URL, which may hold a password, and without the cause: of `user:p@ss:word@host` it tells `word`.
        raise ConfigError("DATABASE_URL is no URL of a Postgres or SQLite database") from None
    return Store(engine, lease_s=settings.lease_s, max_crashes=settings.max_crashes)


def _anthropic(settings: Settings) -> AnthropicClient:
    key = settings.anthropic_api_key.get_secret_value()
    # The key is checked when a call is made with it: the API and the tool workers never make one.
    return AnthropicClient(key or "not-set", settings.anthropic_base_url or BASE_URL)


def _is_sqlite(settings: Settings) -> bool:
    return settings.database_url.startswith("sqlite")
