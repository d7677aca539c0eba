"""How a command fails: a sentence on standard error, and an exit code."""

import click


class Failure(click.ClickException):
    """Ends the command: it, or the run that it waited for, failed."""

    exit_code = 1


class Away(Failure):
    """Nobody answered, or only that it cannot answer now: asking again may help."""


class WrongUsage(Failure):
    """The request cannot be carried out as it was put."""

    exit_code = 2


class NotFound(Failure):
    """There is no such run."""

    exit_code = 3


class TimedOut(Failure):
    """What was waited for did not come in time."""

    exit_code = 124
