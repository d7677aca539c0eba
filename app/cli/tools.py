"""`durable tools`: the tools that a worker with these settings would have."""

import json

import click

from app.cli.failure import Failure
from app.cli.output import note, output_option, say_json, say_table
from app.config import settings
from app.tools.registry import Registered, Registry


@click.group()
def tools() -> None:
    """Look at the tools."""


@tools.command("list")
@output_option
def list_tools(form: str) -> None:
    """All tools, and which of the TOOLS setting's modules could not be loaded (exit 1)."""
    registry = Registry(modules=settings().tool_modules())
    rows = [_row(entry) for entry in registry]
    if form == "json":
        say_json(json.dumps({"tools": rows, "failures": registry.failures}))
    else:
        say_table(("NAME", "EFFECT", "QUEUE", "TIMEOUT", "APPROVAL", "SOURCE"), (list(row.values()) for row in rows))
    for source, error in registry.failures.items():
        note(f"not loaded: {source}: {error}")
    if registry.failures:
        raise Failure(f"{len(registry.failures)} of the tool modules could not be loaded")


def _row(entry: Registered) -> dict[str, str | float]:
    it = entry.tool.definition
    return {
        "name": it.name,
        "effect": it.effect.value,
        "queue": it.queue,
        "timeoutS": it.timeout_s,
        "approval": it.approval,
        "source": entry.source,
    }
