"""Writes the parts of the documents that are made from the code: `python docs/generate.py` from the project's folder.

docs/settings.md comes from the fields of app/config.py, the diagrams in docs/states.md from the tables in
app/domain/status.py. tests/test_docs.py fails when what is in the folder is no longer what is made here.
"""

import re
import sys
from collections.abc import Mapping, Set
from enum import StrEnum
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from pydantic import SecretStr  # noqa: E402
from pydantic.fields import FieldInfo  # noqa: E402

from app.config import Settings  # noqa: E402
from app.domain.status import RUN_TRANSITIONS, STEP_TRANSITIONS  # noqa: E402

_SETTINGS_HEAD = """# Settings

Every setting is an environment variable; [`app/config.py`](../app/config.py) is their only reader, and this page is
made from it (`python docs/generate.py`). Units stand last in the names. A wrong value ends the process with one
sentence that names the setting.
"""
_BLOCK = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def settings_page() -> str:
    """docs/settings.md: every field with its default, under the headings of the source."""
    page = _SETTINGS_HEAD
    for title, names in _groups().items():
        page += f"\n## {title}\n\n| variable | default | meaning |\n|---|---|---|\n"
        page += "".join(_row(name, Settings.model_fields[name]) for name in names)
    return page


def diagram(transitions: Mapping[Any, Set[Any]], initial: StrEnum) -> str:
    """A Mermaid state diagram of one table of transitions; states that lead nowhere are ends."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {initial}"]
    for status, following in transitions.items():
        lines += [f"    {status} --> {after}" for after in transitions if after in following]
        lines += [] if following else [f"    {status} --> [*]"]
    return "\n".join([*lines, "```", ""])


def diagrams() -> list[str]:
    """The diagrams of docs/states.md, in their order: run, step."""
    run, step = iter(RUN_TRANSITIONS), iter(STEP_TRANSITIONS)
    return [diagram(RUN_TRANSITIONS, next(run)), diagram(STEP_TRANSITIONS, next(step))]


def states_page(page: str) -> str:
    """docs/states.md with its diagrams replaced."""
    made = iter(diagrams())
    return _BLOCK.sub(lambda _: next(made), page)


def _groups() -> dict[str, list[str]]:
    """Field names under the comments that head them in the source."""
    groups: dict[str, list[str]] = {}
    title = "Settings"
    for line in (ROOT / "app" / "config.py").read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"    # (.+)\.", line):
            title = heading.group(1)
        elif (field := re.match(r"    (\w+):", line)) and field.group(1) in Settings.model_fields:
            groups.setdefault(title, []).append(field.group(1))
    return groups


def _row(name: str, field: FieldInfo) -> str:
    choices = getattr(field.validation_alias, "choices", None) or [name.upper()]
    default = field.default
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    shown = "(none)" if default in (None, "") else f"`{default}`"
    variable = " or ".join(f"`{choice}`" for choice in choices)
    return f"| {variable} | {shown} | {field.description} |\n"


def write() -> None:
    """Bring both pages up to date."""
    (DOCS / "settings.md").write_text(settings_page(), "utf-8")
    states = DOCS / "states.md"
    states.write_text(states_page(states.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
