"""Every setting, read from the environment: the only reader of it. Names are the field names in upper case.

Units stand last in the names. `durable doctor` and docs/settings.md show the same list.
"""

import functools
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.domain.errors import ConfigError
from app.domain.pricing import PriceBook

PROJECT_ROOT = Path(__file__).resolve().parent.parent


class Settings(BaseSettings):
    """One value per setting; frozen."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", secrets_dir=None, populate_by_name=True)

    # Where things are.
    database_url: str = Field("", description="Postgres (or sqlite:///file for embedded use); `up` fills it in.")
    redis_url: str = Field(
        "", validation_alias=AliasChoices("CELERY_BROKER_URL", "REDIS_URL"), description="The broker; `up` fills it in."
    )
    state_dir: Path = Field(Path(".durable"), description="Where `up` keeps its data, locks and logs.")
    host: str = Field("127.0.0.1", description="Address of the API.")
    port: int = Field(8080, ge=1, le=65535, description="Port of the API.")
    flower_port: int = Field(5555, ge=1, le=65535, description="Port of Flower.")
    fake_anthropic_port: int = Field(8081, ge=1, le=65535, description="Port of the local Messages API.")
    fake_latency_s: float = Field(0.5, ge=0, description="Simulated latency of the local Messages API under `up`.")
    postgres_port: int = Field(0, ge=0, le=65535, description="Port of the embedded Postgres; 0: any free one.")
    redis_port: int = Field(
        0, ge=0, le=65535, description="Port of the embedded Redis-compatible server; 0: any free one."
    )
    embedded: Literal["auto", "system", "wheel"] = Field(
        "auto", description="Where `up` takes Postgres and Redis from."
    )

    # The model.
    anthropic_api_key: SecretStr = Field(SecretStr(""), description="Key of the Messages API.")
    anthropic_base_url: str | None = Field(None, description="Another address of the Messages API, e.g. a gateway.")
    model: str = Field("claude-sonnet-5-5", description="Model of a run that names none.")
    max_tokens: int = Field(8192, ge=1, description="Output cap of one model call, in tokens.")
    system_prompt: str = Field(
        "You are a helpful assistant. Use the tools to find facts; do not guess.",
        description="System text of a run that brings none.",
    )
    model_attempt_s: float = Field(600.0, gt=0, description="Total time limit of one model request.")
    model_max_tries: int = Field(6, ge=1, description="Model requests per step over its whole life.")
    model_inline_wait_s: float = Field(
        2.0, ge=0, description="Waits up to this sleep in the worker; longer ones are durable."
    )
    prices_file: Path | None = Field(None, description="Price book (TOML) instead of the one that is shipped.")

    # Runs.
    max_steps: int = Field(100, ge=1, description="Step cap of a run that names none, and the most it may name.")
    max_timeout_seconds: int = Field(86_400, ge=1, description="The longest deadline that a run may ask for.")
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest request body that the API reads.")

    # Tools.
    tools: str = Field(
        "app.tools.tickets", description="Modules with tools, separated by commas; module:name for one of them."
    )
    tool_result_max_chars: int = Field(100_000, ge=100, description="Longer tool results are cut, with a marker.")
    tool_unavailable_s: float = Field(
        300.0, ge=0, description="A run whose tool is implemented nowhere fails after this."
    )

    # Leases and the sweep.
    lease_s: float = Field(30.0, gt=0, description="How long a claim holds without renewal.")
    max_crashes: int = Field(5, ge=1, description="Lapsed claims of one step that end its run as crash_loop.")
    sweep_limit: int = Field(200, ge=1, description="Rows that one sweep handles of each kind.")

    # Processes.
    node_name: str = Field(
        "local", pattern=r"^[A-Za-z0-9_.-]{1,60}$", description="Name of this worker machine in logs and owners."
    )
    db_pool_size: int = Field(10, ge=1, description="Connections per process, besides the keeper's.")
    log_format: Literal["console", "json"] = Field("console", description="One line for people, or ECS JSON.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged.")

    def tool_modules(self) -> list[str]:
        """The entries of TOOLS."""
        return [entry.strip() for entry in self.tools.split(",") if entry.strip()]


@functools.cache
def settings() -> Settings:
    """The settings of this process.

    Raises:
        ConfigError: one sentence for each setting that is wrong.
    """
    try:
        return Settings()
    except ValidationError as error:
        lines = [f"{'.'.join(str(part) for part in e['loc']).upper()}: {e['msg']}" for e in error.errors()]
        raise ConfigError("; ".join(lines)) from error


def price_book(chosen: Settings) -> PriceBook:
    """The price book that the settings name.

    Raises:
        ConfigError: the file cannot be read, or is no price book.
    """
    path = chosen.prices_file or PROJECT_ROOT / "app" / "prices.toml"
    try:
        with path.open("rb") as file:
            return PriceBook.from_toml(tomllib.load(file, parse_float=Decimal))
    except (OSError, ValueError) as error:  # no TOML, or no UTF-8
        raise ConfigError(f"PRICES_FILE {path}: {error}") from error
