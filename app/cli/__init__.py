"""The `durable` command: starts things, and speaks to the API over HTTP like any other client.

Rules: data goes to standard output, notes to standard error. Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found,
124 timed out waiting. A command's module is imported when the command is used, so that `durable runs list` is quick.
"""

import importlib
from typing import Any

import click

from app.cli.failure import Failure, WrongUsage
from app.domain.errors import AgentError, ConfigError

#: Name to where the command is, in the order of the help page.
COMMANDS = {
    "up": "app.cli.servers:up_command",
    "run": "app.cli.runs:run",
    "runs": "app.cli.runs:runs",
    "tools": "app.cli.tools:tools",
    "doctor": "app.cli.doctor:doctor",
    "migrate": "app.cli.migrate:migrate",
    "demo-kill": "app.cli.demo_kill:demo_kill",
    "fake-anthropic": "app.cli.servers:fake_anthropic",
}


class Commands(click.Group):
    """The commands of `COMMANDS`, and one place where our errors become exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise WrongUsage(str(error)) from error
        except AgentError as error:
            raise Failure(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """A durable runtime for AI agents: every step is written down the moment it finishes."""
