"""Keeps children alive, relays what they say, and stops them in reverse order.

One thread and one selector: the kernel ties the children's lives to the thread that started them, and nothing here
needs a lock.
"""

import os
import selectors
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from app.cli.up.child import Child, exit_text
from app.cli.up.output import Output
from app.cli.up.state_dir import RunningProcess, is_held
from app.cli.up.stop_signals import StopSignals
from app.embedded.errors import EmbeddedError

_LOOK_EVERY_S = 0.5


class Supervisor:
    """A set of children and the loop over them. Use it as a context manager: leaving it stops all of them."""

    def __init__(self, output: Output, state_dir: Path, *, stop_grace_s: float) -> None:
        """Begin with no children.

        Args:
            output: where their lines go.
            state_dir: where hold files are looked for.
            stop_grace_s: seconds a child may take to end before it is killed.
        """
        self._output = output
        self._state_dir = state_dir
        self._stop_grace_s = stop_grace_s
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._signals = StopSignals()
        self._stopping = False
        self.on_change: Callable[[tuple[RunningProcess, ...]], None] = lambda processes: None

    def __enter__(self) -> Self:
        """Take over Ctrl-C and SIGTERM."""
        self._signals.__enter__()
        self._selector.register(self._signals, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop every child, the last started first, and give the signals back."""
        self._stopping = True
        try:
            for stage in sorted({child.stage for child in self._children}, reverse=True):
                self._stop([child for child in self._children if child.stage == stage])
        finally:
            self._selector.close()
            self._signals.__exit__()

    @property
    def stop_requested(self) -> bool:
        """Whether a signal asked us to stop, or nobody reads our log any more."""
        return self._signals.requests > 0 or self._output.broken

    def add(self, child: Child) -> None:
        """Start a child and keep it alive from now on."""
        self._children.append(child)
        self._start(child)

    def run_to_end(self, child: Child) -> int:
        """Start a child that is to end by itself, and wait for it.

        Returns:
            Its exit code; negative, the signal, if it was stopped because we were asked to stop.
        """
        child.start()
        self._listen(child)
        while not child.has_ended():
            self._relay()
            if self.stop_requested:
                child.ask_to_stop()
        self._drain(child)
        return child.exit_code

    def turn(self) -> None:
        """Relay output, notice the dead, start again what is due. Returns at a signal or after half a second."""
        self._relay()
        for child in self._children:
            if child.has_ended():
                self._drain(child)
                self._mourn(child)
                self._publish()
            if self._is_due(child):
                self._start_again(child)

    def _is_due(self, child: Child) -> bool:
        if self._stopping or self.stop_requested or child.alive or time.monotonic() < child.not_before:
            return False
        return not is_held(self._state_dir, child.node)

    def _start(self, child: Child) -> None:
        child.start()
        self._listen(child)
        self._publish()

    def _start_again(self, child: Child) -> None:
        try:
            self._start(child)
        except (EmbeddedError, OSError) as error:
            self._output.say(f"{child.name} process did not start ({error}); next try in {child.pause_s():.0f}s")

    def _mourn(self, child: Child) -> None:
        if self._stopping or self.stop_requested:
            return
        then = f"restarting in {child.pause_s():.0f}s"
        if is_held(self._state_dir, child.node):
            then = f"not restarted while {self._state_dir.name}/hold-{child.node} exists"
        self._output.say(f"{child.name} process {exit_text(child.exit_code)}; {then}")

    def _publish(self) -> None:
        alive = [child for child in self._children if child.alive]
        self.on_change(tuple(RunningProcess(c.name, c.node, c.role, c.pid, c.restarts) for c in alive))

    def _stop(self, group: list[Child]) -> None:
        for child in group:
            child.ask_to_stop()
        # The request that brought us here is the first; one more while we wait means: now.
        patience = max(self._signals.requests, 1)
        give_up = time.monotonic() + self._stop_grace_s
        while any(child.alive for child in group):
            if self._signals.requests > patience or time.monotonic() > give_up:
                self._kill([child for child in group if child.alive])
                return
            self.turn()

    def _kill(self, group: list[Child]) -> None:
        for child in group:
            self._output.say(f"{child.name} process has not ended yet: killed")
            child.kill()
        while any(child.alive for child in group):
            self.turn()

    def _listen(self, child: Child) -> None:
        if child.pipe is not None:
            os.set_blocking(child.pipe.fileno(), False)
            self._selector.register(child.pipe, selectors.EVENT_READ, child)

    def _relay(self) -> None:
        for key, _ in self._selector.select(_LOOK_EVERY_S):
            if key.data is None:
                self._signals.acknowledge()
            else:
                self._read(key.data)

    def _read(self, child: Child) -> bool:
        """Relay what the pipe holds; False when there is no more, for now or for ever."""
        if child.pipe is None:
            return False
        try:
            data = os.read(child.pipe.fileno(), 65536)
        except BlockingIOError:
            return False
        for line in child.lines.feed(data) if data else child.lines.finish():
            self._output.relay(child.name, line)
        if not data:
            self._close(child)
        return bool(data)

    def _drain(self, child: Child) -> None:
        while self._read(child):
            pass
        self._close(child)  # still open if a process outside of the group holds the other end

    def _close(self, child: Child) -> None:
        if child.pipe is not None:
            self._selector.unregister(child.pipe)
            child.pipe.close()
