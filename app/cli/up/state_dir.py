"""The state folder of `up`: one owner at a time, and a page that says what runs.

The lock is held by the open file of the living process, so it frees itself however that process ends. No child
inherits it.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HOLD_LIMIT_S = 300.0


class StateDirTaken(Exception):
    """Another `up` owns the folder."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One child. Its process group has the same number, so `os.killpg(pid, …)` reaches its children as well."""

    name: str
    node: str
    role: str
    pid: int
    restarts: int


@dataclass(frozen=True, slots=True)
class UpState:
    """What a running `up` says about itself in `up.json`. The URLs hold passwords: the file is private."""

    pid: int
    api_url: str
    flower_url: str
    anthropic_url: str
    database_url: str
    redis_url: str
    processes: tuple[RunningProcess, ...]


@contextmanager
def owned(state_dir: Path) -> Iterator[None]:
    """Make the folder and own it.

    Raises:
        StateDirTaken: a living `up` owns it; nothing was touched.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    # Never deleted: a deleted lock file would let two owners lock two files of the same name.
    with open(os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateDirTaken(
                f"another `up` (pid {file.read().strip()}) already runs over {state_dir}: stop it first"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            (state_dir / "up.json").unlink(missing_ok=True)


def write_up_state(state_dir: Path, state: UpState) -> None:
    """Replace `up.json` at once, so that no reader sees half of it."""
    draft = state_dir / "up.json.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(state), file, indent=2)
    draft.rename(state_dir / "up.json")


def read_up_state(state_dir: Path) -> UpState | None:
    """What runs over this folder, or None when no `up` lives there."""
    try:
        with (state_dir / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except FileNotFoundError:
        return None
    except OSError:
        pass  # somebody holds it
    try:
        said = json.loads((state_dir / "up.json").read_text())
    except FileNotFoundError:  # it is just starting or stopping
        return None
    processes = tuple(RunningProcess(**process) for process in said.pop("processes"))
    return UpState(**said, processes=processes)


def hold_file(state_dir: Path, node: str) -> Path:
    """While this file exists and is fresh, a dead process of the node is not started again."""
    return state_dir / f"hold-{node}"


def is_held(state_dir: Path, node: str) -> bool:
    """Whether the node may not be restarted now; a hold forgotten for five minutes no longer counts."""
    if not node:
        return False
    try:
        age_s = time.time() - hold_file(state_dir, node).stat().st_mtime
    except FileNotFoundError:
        return False
    return age_s < HOLD_LIMIT_S
