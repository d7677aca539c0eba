"""The documents are true where a machine can tell: names exist, links lead somewhere, made pages are fresh."""

import ast
import re
from pathlib import Path

import pytest

from app.config import Settings
from docs.generate import diagrams, settings_page, states_page
from tests.support.project_files import ROOT, named, parsed, project_files

_PAGES = [path for path in project_files() if path.suffix == ".md"]
_REFERENCE = re.compile(r"`([\w./-]+\.(?:py|toml))(?:::([\w.]+))?`")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_MUST_BE_FOUND = (
    "the fence",
    "the claim",
    "what happens next",
    "the stop rules",
    "what is written when",
    "replay",
    "a retry",
    "a declared tool",
    "every setting",
    "the legal states",
    "a lost message healed",
    "postgres differs from sqlite",
    "the proof",
)


def _where_rows() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    section = text.split("## Where is", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| ") and "`" in line]


def _names(path: Path) -> set[str]:
    """What a file defines: functions, classes, `Class.member`, and names that are assigned at its top."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    collect(parsed(path).body, "")
    return found


def test_where_is_answers_the_questions_that_newcomers_ask() -> None:
    questions = " ".join(row.split("|")[1].lower() for row in _where_rows())
    assert [question for question in _MUST_BE_FOUND if question not in questions] == []


@pytest.mark.parametrize("row", _where_rows(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_what_where_is_names_exists(row: str) -> None:
    references = _REFERENCE.findall(row.split("|")[2])
    assert references, f"no `path::name` in {row}"
    for file, name in references:
        path = ROOT / file
        assert path.exists(), f"{file} does not exist"
        assert not name or name in _names(path), f"{file} has no {name}"


@pytest.mark.parametrize("page", _PAGES, ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for file, name in _REFERENCE.findall(page.read_text("utf-8")):
        if "/" in file:
            assert (ROOT / file).exists(), f"{named(page)}: {file} does not exist"
            assert not name or name in _names(ROOT / file), f"{named(page)}: {file} has no {name}"


@pytest.mark.parametrize("page", _PAGES, ids=named)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{named(page)}: {target}"
        assert not anchor or anchor in _anchors(path), f"{named(page)}: no heading for {target}"


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_settings_page_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    assert page == settings_page(), "run `python docs/generate.py`"


def test_the_settings_page_has_every_setting_with_its_default() -> None:
    page = settings_page()
    for name, field in Settings.model_fields.items():
        row = next((line for line in page.splitlines() if f"`{name.upper()}`" in line), "")
        assert row, f"{name} is not on the page"
        assert field.description
        assert field.description in row
    assert "| `LEASE_S` | `30.0` |" in page


def test_the_diagrams_are_what_the_tables_of_transitions_say() -> None:
    page = (ROOT / "docs" / "states.md").read_text("utf-8")
    assert page == states_page(page), "run `python docs/generate.py`"
    assert all(block in page for block in diagrams())
    assert "    STARTED --> READY\n" in diagrams()[1]
    assert "    DONE --> READY\n" not in diagrams()[1]


def test_every_fault_of_celery_that_a_comment_cites_is_described() -> None:
    described = set(re.findall(r"^\| (P\d+) \|", (ROOT / "docs" / "celery.md").read_text("utf-8"), re.MULTILINE))
    sources = [path for path in project_files() if named(path).startswith("tasks/") and path.suffix == ".py"]
    cited = {fault for path in sources for fault in re.findall(r"\bP\d+\b", path.read_text("utf-8"))}
    assert cited <= described
    assert "P10" in cited
