"""Waiting for what other processes do: until a condition holds, or a time limit fails the test."""

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], bool], *, within_s: float = 20.0, what: str = "the condition") -> None:
    """Look again and again until `condition()` holds; fail after `within_s` seconds."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come true within {within_s} s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process exists and is more than a zombie that nobody has reaped yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is no child of ours."""
    wait_until(lambda: not is_running(pid), what=f"the end of process {pid}")
