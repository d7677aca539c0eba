"""What commands print: tables and lines for people, JSON for programs.

What a model or a tool said may hold control characters, which a terminal would obey: they are shown as a mark instead.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.domain.text import clean

_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_WIDE = 500

output_option = click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", help="For people, or for programs."
)
url_option = click.option(
    "--url", envvar="DURABLE_URL", default="http://127.0.0.1:8080", show_default=True, help="Where the API is."
)


def say(text: str = "") -> None:
    """Data for people, one line or several."""
    click.echo(printable(text))


def say_json(text: str) -> None:
    """Data for programs: JSON text as it is."""
    click.echo(text.strip())


def note(text: str) -> None:
    """Anything else."""
    click.echo(printable(text), err=True)


def say_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], *, styles: dict[str, str] | None = None, may_wrap: int = 1
) -> None:
    """A table; None is shown as a dash.

    Args:
        styles: how cells with this text are coloured, on a terminal that wants colours.
        may_wrap: how many of the last columns may take several lines.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, no_wrap=index < len(headings) - may_wrap)
    for row in rows:
        cells = ["-" if value is None else one_line(str(value), 300) for value in row]
        table.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in cells))
    # A pipe has no width, and a cut id is of no use to the next program.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDE).print(table)


def printable(text: str) -> str:
    """The text without anything that a terminal obeys, apart from line breaks and tabs."""
    return clean(text).translate(_CONTROLS)


def one_line(text: str, max_chars: int = 100) -> str:
    """The beginning of a text, in one line."""
    words = " ".join(printable(text[: max_chars * 4]).split())
    return words if len(words) <= max_chars else words[: max_chars - 1] + "…"
