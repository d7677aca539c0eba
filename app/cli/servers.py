"""`durable up` and `durable fake-anthropic`: commands that stay until Ctrl-C."""

import sys
from pathlib import Path

import click

from app.cli.failure import Failure


@click.command("up")
def up_command() -> None:
    """Start everything on this machine: database, broker, API, two worker nodes and Flower.

    Settings come from the environment: PORT, STATE_DIR, DATABASE_URL, REDIS_URL, ANTHROPIC_API_KEY and others.
    """
    from app.cli.up import UpPlan, up
    from app.config import settings
    from app.tools.registry import Registry

    chosen = settings()
    plan = UpPlan(
        state_dir=Path(chosen.state_dir),
        host=chosen.host,
        port=chosen.port,
        flower_port=chosen.flower_port,
        fake_anthropic_port=chosen.fake_anthropic_port,
        postgres_port=chosen.postgres_port,
        redis_port=chosen.redis_port,
        database_url=chosen.database_url,
        redis_url=chosen.redis_url,
        anthropic_api_key=chosen.anthropic_api_key.get_secret_value(),
        anthropic_base_url=chosen.anthropic_base_url or "",
        embedded=chosen.embedded,
        tool_queues=Registry(modules=chosen.tool_modules()).queues(),
    )
    sys.exit(up(plan))


@click.command("fake-anthropic")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0: any free one.")
@click.option("--latency-ms", type=click.FloatRange(min=0), help="How long an answer takes; else FAKE_LATENCY_S says.")
def fake_anthropic(host: str, port: int, latency_ms: float | None) -> None:
    """Serve a strict local Messages API, for tests and for use without a key."""
    from app.config import settings
    from app.llm.fake_server import serve

    latency_s = settings().fake_latency_s if latency_ms is None else latency_ms / 1000
    try:
        serve(host, port, latency_s, on_ready=lambda url: click.echo(f"Messages API (local) on {url}"))
    except OSError as error:
        raise Failure(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        pass
