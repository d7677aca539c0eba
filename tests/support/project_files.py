"""The files of this project, found without git: a source archive has none."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("app", "tasks", "alembic", "tests", "docs", "requirements", ".ci")


def project_files() -> list[Path]:
    """Every file that belongs to the project, in order of its path."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in _FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted(found)


def python_files(*folders: str) -> list[Path]:
    """The Python files of these folders."""
    return [path for path in project_files() if path.suffix == ".py" and named(path).split("/")[0] in folders]


def named(path: Path) -> str:
    """The path as people say it: relative to the project, with slashes."""
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a tree, nested ones and methods included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported_modules(tree: ast.Module) -> set[str]:
    """The full names of all modules that a tree imports, wherever the import stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names
