"""House rules that no linter knows: sizes, names, words that must not be in a file, docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project_files import ROOT, functions, named, parsed, project_files, python_files

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_POSITIONAL = 4
# The test model reads as a script: then_tool_use("toolu_1", "list_tickets", {"customer": "acme"}, 812, 64).
_MAY_TAKE_MORE = {"app/llm/scripted.py::then_tool_use"}
# Names that say nothing: whatever is put there belongs somewhere else.
_EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc", "stuff"}
_FORBIDDEN_TEXT = {
    "a package registry's host": r"pypi\.org|pythonhosted|npmjs|ghcr\.io|quay\.io|simple/index",
    "a path of one machine": r"(?<![\w.])/(work|root|Users)/|(?<![\w.])/home/\w+/",
    "unfinished work": r"\b(TODO|FIXME|XXX|HACK)\b|pass  # stub|raise NotImplementedError",
    "a mock that patches": r"mock\.patch|unittest\.mock|MagicMock",
    "how the text came about": r"(?i)claude[ -]code|chatgpt|copilot|codex|\bas an ai\b|co-authored-by"
    r"|generated (with|by) (ai|claude)|\b(ai|agent|this) session\b|\bthe brief\b",
}


def _texts() -> Iterator[tuple[Path, str]]:
    for path in project_files():
        if path == Path(__file__):
            continue
        try:
            yield path, path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_is_longer_than_300_lines() -> None:
    sizes = {named(path): len(path.read_text("utf-8").splitlines()) for path in python_files("app", "tasks", "tests")}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = {
        f"{named(path)}::{function.name}": lines
        for path in python_files("app", "tasks")
        for function in functions(parsed(path))
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_function_takes_more_than_4_positional_parameters() -> None:
    greedy = {}
    for path in python_files("app", "tasks"):
        for function in functions(parsed(path)):
            names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            if names[:1] in (["self"], ["cls"]):
                names = names[1:]
            if len(names) > MAX_POSITIONAL:
                greedy[f"{named(path)}::{function.name}"] = names
    assert greedy.keys() == _MAY_TAKE_MORE


def test_every_module_is_named_after_what_is_in_it() -> None:
    paths = python_files("app", "tasks", "tests")
    assert [named(path) for path in paths if _EMPTY_NAMES & {*path.relative_to(ROOT).parts[:-1], path.stem}] == []


@pytest.mark.parametrize("what", _FORBIDDEN_TEXT)
def test_no_file_contains(what: str) -> None:
    pattern = re.compile(_FORBIDDEN_TEXT[what])
    found = [
        f"{named(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for path, text in _texts()
        for match in pattern.finditer(text)
    ]
    assert found == []


def test_every_public_name_of_app_and_tasks_has_a_docstring() -> None:
    bare = [f"{named(path)}::{name}" for path in python_files("app", "tasks") for name in _undocumented(parsed(path))]
    assert bare == []


def _undocumented(tree: ast.Module) -> Iterator[str]:
    if ast.get_docstring(tree) is None:
        yield "(module)"
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None:
            yield node.name
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            if not isinstance(member, ast.FunctionDef) or member.name.startswith("_"):
                continue
            if ast.get_docstring(member) is None:
                yield f"{node.name}.{member.name}"


def test_the_migrations_folder_does_not_hide_the_alembic_package() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()


def test_test_folders_are_no_packages() -> None:
    assert [named(path) for path in (ROOT / "tests").rglob("__init__.py")] == []
