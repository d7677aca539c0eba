"""Tools for process tests. Their effects are lines in a file that the test reads."""

import os
import time
from pathlib import Path
from typing import NoReturn

from app.tools.call import ToolCall
from app.tools.declare import tool


def _note(line: str) -> None:
    with Path(os.environ["EFFECTS_FILE"]).open("a") as file:
        file.write(line + "\n")


@tool(effect="KEYED", timeout_s=30)
def slow_note(n: int, seconds: float, call: ToolCall) -> str:
    """Write a line, work for a while, and return.

    Args:
        n: goes into the line.
        seconds: how long the work takes.
    """
    _note(f"start {n} {call.id} {call.idempotency_key} {os.getpid()} {time.time():.3f}")
    time.sleep(seconds)
    _note(f"end {n} {call.id} {call.idempotency_key} {os.getpid()} {time.time():.3f}")
    return f"noted {n}"


@tool(effect="READ", timeout_s=2)
def never_returns() -> str:
    """Ignore the soft limit, for ever."""
    _stay()


@tool(effect="UNSAFE", timeout_s=2)
def unsafe_never_returns() -> str:
    """Ignore the soft limit, for ever, in a call that must not be made twice."""
    _stay()


def _stay() -> NoReturn:
    while True:
        try:
            _note(f"alive {time.time():.3f}")
            time.sleep(0.2)
        except Exception:
            _note("soft limit ignored")


@tool(effect="UNSAFE", timeout_s=30)
def unsafe_note(n: int, seconds: float, call: ToolCall) -> str:
    """Write a line that must not be written twice.

    Args:
        n: goes into the line.
        seconds: how long the work takes.
    """
    _note(f"unsafe {n} {call.idempotency_key}")
    time.sleep(seconds)
    return "done"


@tool(effect="READ", timeout_s=30)
def aborts() -> str:
    """End its process, each time."""
    os.abort()


@tool(effect="READ", timeout_s=30)
def exits() -> str:
    """Ask for the end of its process, as argument parsers do."""
    raise SystemExit("bad usage")


class Odd(BaseException):
    """Not an Exception: no tool's failure, by the rules of call_tool."""


@tool(effect="READ", timeout_s=30)
def raises_oddly() -> str:
    """Raise what nobody expects."""
    raise Odd
