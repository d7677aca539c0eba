"""Which database and broker a command means: those of the settings, else those of a running `up`."""

from app.cli.up.state_dir import UpState, read_up_state
from app.config import Settings
from app.domain.errors import ConfigError


def database_url(settings: Settings) -> str:
    """URL of the database.

    Raises:
        ConfigError: neither the settings nor a running `up` name one.
    """
    return settings.database_url or _running(settings, "DATABASE_URL").database_url


def redis_url(settings: Settings) -> str:
    """URL of the broker. Raises as `database_url` does."""
    return settings.redis_url or _running(settings, "REDIS_URL").redis_url


def _running(settings: Settings, name: str) -> UpState:
    state = read_up_state(settings.state_dir)
    if state is None:
        raise ConfigError(f"{name} is not set, and no `durable up` runs over {settings.state_dir}")
    return state
