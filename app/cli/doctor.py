"""`durable doctor`: is everything in place for a run to succeed? Each finding comes with its cure."""

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import click
from redis import Redis
from redis.exceptions import RedisError

from app.cli.failure import Failure
from app.cli.output import output_option, say_json, say_table
from app.cli.place import database_url, redis_url
from app.config import Settings, price_book, settings
from app.domain.errors import AgentError, ConfigError
from app.store.migrations import current, head
from app.tools.registry import Registry

_WAIT_S = 3.0
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: `level` is ok, warn or fail; `fix` is what to do about it."""

    check: str
    level: str
    text: str
    fix: str = ""


@click.command()
@output_option
def doctor(form: str) -> None:
    """Check this installation and its settings. Exit 1 if something must be mended."""
    findings = [_python(), *_with_settings()]
    if form == "json":
        say_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        rows = [(found.level, found.check, found.text, found.fix) for found in findings]
        say_table(("", "CHECK", "FINDING", "WHAT TO DO"), rows, styles=_COLOURS, may_wrap=2)
    if broken := [found.check for found in findings if found.level == "fail"]:
        raise Failure(f"to be mended: {', '.join(broken)}")


def _python() -> Finding:
    return Finding("python", "ok" if sys.version_info >= (3, 11) else "fail", platform.python_version(), "")


def _with_settings() -> list[Finding]:
    try:
        chosen = settings()
    except ConfigError as error:
        return [Finding("settings", "fail", str(error), "correct these environment variables")]
    checks: tuple[tuple[str, Callable[[Settings], Finding], str], ...] = (
        ("database", _database, "set DATABASE_URL to a PostgreSQL that runs, or start everything with `make up`"),
        ("broker", _broker, "set REDIS_URL to a Redis that runs, or start everything with `make up`"),
        ("model", _model, ""),
        ("tools", _tools, "mend the module, or take it out of TOOLS"),
        ("prices", _prices, "mend PRICES_FILE, or unset it"),
    )
    return [Finding("settings", "ok", "valid"), *(_checked(name, check, fix, chosen) for name, check, fix in checks)]


def _checked(name: str, check: Callable[[Settings], Finding], fix: str, chosen: Settings) -> Finding:
    try:
        return check(chosen)
    except (AgentError, RedisError, OSError, ValueError) as error:
        return Finding(name, "fail", str(error), fix)


def _database(chosen: Settings) -> Finding:
    at, newest = current(database_url(chosen)), head()
    if at == newest:
        return Finding("database", "ok", f"answers, at migration {at}")
    return Finding("database", "fail", f"at migration {at or 'none'}, needed is {newest}", "run `durable migrate`")


def _broker(chosen: Settings) -> Finding:
    with Redis.from_url(redis_url(chosen), socket_timeout=_WAIT_S, socket_connect_timeout=_WAIT_S) as redis:
        redis.ping()
    return Finding("broker", "ok", "answers")


def _model(chosen: Settings) -> Finding:
    if chosen.anthropic_api_key.get_secret_value():
        return Finding("model", "ok", f"there is an API key for {chosen.anthropic_base_url or 'the Messages API'}")
    if chosen.anthropic_base_url:
        return Finding("model", "ok", f"no API key, but another address: {chosen.anthropic_base_url}")
    hint = "set ANTHROPIC_API_KEY; until then `up` uses its own local model"
    return Finding("model", "warn", "no ANTHROPIC_API_KEY", hint)


def _tools(chosen: Settings) -> Finding:
    registry = Registry(modules=chosen.tool_modules())
    if registry.failures:
        raise ConfigError("; ".join(f"{source}: {error}" for source, error in registry.failures.items()))
    return Finding("tools", "ok", ", ".join(entry.tool.name for entry in registry) or "none")


def _prices(chosen: Settings) -> Finding:
    book = price_book(chosen)
    if book.knows(chosen.model):
        return Finding("prices", "ok", f"book {book.version} has a price for {chosen.model}")
    hint = "add it to a PRICES_FILE; until then its cost is unknown and cost budgets are refused"
    return Finding("prices", "warn", f"book {book.version} has no price for {chosen.model}", hint)
