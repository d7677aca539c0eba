"""The floors are kept: imports only point down (contracts in pyproject.toml), and the ground floor is pure."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project_files import ROOT, imported_modules, named, parsed, python_files

# Parts of the standard library that would bring I/O, the clock or chance to the ground floor.
_IMPURE = {"asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "socket", "subprocess", "sys", "threading"}
_IMPURE |= {"time", "urllib", "http", "shutil", "tempfile", "signal", "select", "uuid"}


def _lint_imports(root: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run([*command, "--no-logo"], cwd=root, capture_output=True, text=True, check=False)


def test_imports_keep_every_contract() -> None:
    done = _lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("place", "line", "contract"),
    [
        ("app/domain/guard.py", "import app.store.fence", "Imports only point down"),
        ("app/tools/call.py", "import app.llm.client", "Imports only point down"),
        ("app/api/app.py", "import tasks.step", "Imports only point down"),
        ("app/engine/advance.py", "import anthropic", "import anthropic"),
        ("app/engine/advance.py", "import sqlalchemy", "imports SQLAlchemy"),
        ("app/engine/advance.py", "import celery", "imports Celery"),
        ("app/engine/advance.py", "import flask", "imports Flask"),
    ],
)
def test_an_import_that_breaks_a_floor_is_found(place: str, line: str, contract: str, tmp_path: Path) -> None:
    for folder in ("app", "tasks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / place).open("a") as file:
        file.write(f"\n{line}\n")
    done = _lint_imports(tmp_path)
    broken = [said for said in done.stdout.splitlines() if said.rstrip().split(" (")[0].endswith("BROKEN")]
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(contract in said for said in broken), done.stdout


def test_the_ground_floor_is_pure_and_needs_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names - _IMPURE
    strangers = {
        f"{named(path)}: {module}"
        for path in python_files("app")
        if named(path).startswith("app/domain/")
        for module in imported_modules(parsed(path))
        if not module.startswith("app.domain") and module.split(".")[0] not in allowed
    }
    assert strangers == set()


def test_only_app_config_reads_the_environment() -> None:
    readers = {
        named(path)
        for path in python_files("app", "tasks", "alembic")
        if any(word in path.read_text("utf-8") for word in ("os.environ", "os.getenv", "BaseSettings("))
    }
    # `up` hands its own environment on to its children.
    assert readers <= {"app/config.py", "app/cli/up/fleet.py"}
