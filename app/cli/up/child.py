"""One child: its process, its pipe, how it ended and when it may start again."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from app.cli.up.fleet import ProcessSpec, inherited
from app.cli.up.output import Lines
from app.embedded import tether

_STEADY_AFTER_S = 60.0
_LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Child:
    """A process that is kept alive.

    Attributes:
        name: what the log calls it.
        launch: starts the process and returns it; called again for each restart.
        stage: a higher one is stopped earlier.
        stop_signal: asks it to end in good order.
        node: the worker machine it stands for; empty for the rest.
        role: what `up.json` calls its work.
        restarts: how often it ended by itself.
        not_before: monotonic time of the next start.
    """

    name: str
    launch: "Callable[[], subprocess.Popen[bytes]]"
    stage: int
    stop_signal: signal.Signals = signal.SIGTERM
    node: str = ""
    role: str = ""
    restarts: int = 0
    not_before: float = 0.0
    lines: Lines = field(default_factory=Lines)
    _process: "subprocess.Popen[bytes] | None" = None
    _started: float = 0.0
    _failures: int = 0

    @property
    def alive(self) -> bool:
        """Whether it was started and its end has not been seen."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id, and number of its process group; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int:
        """How it ended, as `subprocess` says it."""
        return self._process.returncode if self._process else 0

    @property
    def pipe(self) -> IO[bytes] | None:
        """What it says, while that is open; a server that writes to its own file has none."""
        pipe = self._process.stdout if self._process else None
        return None if pipe is None or pipe.closed else pipe

    def start(self) -> None:
        """Start the process."""
        self._process = self.launch()
        self._started = time.monotonic()

    def has_ended(self) -> bool:
        """Whether the process ended since the last look; its stragglers are killed then, for nobody leads them."""
        if self._process is None or self._process.returncode is not None or self._process.poll() is None:
            return False
        _kill_group(self._process.pid)
        return True

    def pause_s(self) -> float:
        """Note one more failure and return how long to wait before the next start, in seconds."""
        now = time.monotonic()
        self._failures = 1 if now - self._started >= _STEADY_AFTER_S else self._failures + 1
        pause = restart_pause_s(self._failures)
        self.not_before = now + pause
        self.restarts += 1
        return pause

    def ask_to_stop(self) -> None:
        """Send the stop signal to the process alone: its own children must live to finish their work."""
        if self._process is not None and self.alive:
            self._process.send_signal(self.stop_signal)

    def kill(self) -> None:
        """Kill the process and everything it started."""
        if self.alive:
            _kill_group(self.pid)


def child_of(spec: ProcessSpec) -> Child:
    """The child that runs a spec's command, its output in a pipe."""

    def launch() -> "subprocess.Popen[bytes]":
        return tether.spawn(spec.argv, death_signal=spec.death_signal, output=subprocess.PIPE, env=inherited(spec))

    return Child(spec.name, launch, spec.stage, node=spec.node, role=spec.role)


def restart_pause_s(failures: int) -> float:
    """Seconds before the next start after that many failures in a row: 1, 2, 4 … 30."""
    return min(_LONGEST_PAUSE_S, 2.0 ** (min(failures, 10) - 1))


def exit_text(returncode: int) -> str:
    """How a process ended, for people."""
    if returncode == -signal.SIGKILL:
        return "killed with signal 9 (kill -9)"
    if returncode < 0:
        return f"killed with signal {-returncode} ({signal.Signals(-returncode).name})"
    return f"ended with exit code {returncode}"


def _kill_group(pid: int) -> None:
    # Nobody may be left (macOS says "permission" of zombies).
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
