"""PostgreSQL's `postmaster.pid`: what a server says about itself, and what a killed one leaves behind."""

import os
import signal
import subprocess
import time
from pathlib import Path

from app.embedded.errors import EmbeddedError

_STATUS_LINE = 7


def says_ready(data: Path, pid: int) -> bool:
    """Whether the server with this process id says that it accepts connections."""
    lines = _lines(data)
    return len(lines) > _STATUS_LINE and lines[0] == str(pid) and lines[_STATUS_LINE].strip() == "ready"


def clear_stale(data: Path, give_up: float) -> None:
    """Wait for a former server of this folder to end; remove its pid file if another process has its number now.

    PostgreSQL forgives a pid file whose process is gone, but refuses to start if the number was reused, as is common in
    containers. The caller owns the state folder, so a live server here is one that is shutting down.

    Raises:
        EmbeddedError: the server still runs at the monotonic time `give_up`.
    """
    lines = _lines(data)
    if not lines or not lines[0].isdigit():
        return
    pid = int(lines[0])
    while _is_server_of(pid, data):
        if time.monotonic() > give_up:
            raise EmbeddedError(f"another PostgreSQL (pid {pid}) still runs over {data}: stop it first")
        os.kill(pid, signal.SIGINT)
        time.sleep(0.1)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _is_server_of(pid: int, data: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        words = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return b"postgres" in words and os.fsencode(data) in words
