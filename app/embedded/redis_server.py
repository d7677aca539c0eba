"""A private Redis-compatible server: its data folder, its password, its port and its process.

Nothing is ever evicted and the append-only file is flushed each second: as near to a production broker as a single
process gets. Its files are only wake-up messages, so each server version keeps its own and an upgrade starts empty.
"""

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from app.embedded import binaries, ports, tether
from app.embedded.errors import EmbeddedError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_CONFIG = """\
bind {host}
port {port}
requirepass {password}
daemonize no
dir .
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


class RedisServer:
    """One server over `state_dir/redis`; start it again after a stop, a crash or a kill as often as you like."""

    def __init__(self, state_dir: Path, mode: binaries.Mode = "auto", *, port: int = 0) -> None:
        """Name the server; nothing is touched yet.

        Args:
            state_dir: an existing folder.
            mode: which programs may be used, see `binaries.find_redis`.
            port: a fixed port, or 0 for the one of last time, else any free one.
        """
        self._home = state_dir.resolve() / "redis"
        self._mode = mode
        self._fixed_port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.flavour = ""
        self.url = ""

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Stop the server."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id, 0 when none was started."""
        return self.process.pid if self.process else 0

    @property
    def log_file(self) -> Path:
        """What the server says."""
        return self._home / "server.log"

    def start(self) -> str:
        """Start it and wait until it answers.

        Returns:
            A `redis://` URL, password included.

        Raises:
            EmbeddedError: no program, or the server's own reason.
        """
        binary = binaries.find_redis(self._mode)
        self.flavour = binary.flavour
        self._home.mkdir(mode=0o700, exist_ok=True)
        # Once it ran, it keeps its port: others hold its URL.
        self.port = ports.settled_port(self._home / "port", self._fixed_port or self.port)
        password = self._password()
        self.url = f"redis://:{password}@{ports.LOOPBACK}:{self.port}/0"
        self.process = self._launch(binary, password)
        if not self._wait_ready():
            self.stop()
            said = self.log_file.read_text(errors="replace").strip().splitlines()
            raise EmbeddedError(f"{self.flavour} did not start: {' / '.join(said[-3:])} (log: {self.log_file})")
        (self._home / "port").write_text(str(self.port))
        return self.url

    def stop(self) -> None:
        """End it in good order; harmless when it does not run."""
        if self.process is None:
            return
        for stop_signal in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            self.process.send_signal(stop_signal)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue

    def _password(self) -> str:
        file = self._home / "password"
        if not file.exists():
            _write_private(file, secrets.token_urlsafe(24))
        return file.read_text()

    def _launch(self, binary: binaries.RedisBinary, password: str) -> "subprocess.Popen[bytes]":
        data = self._home / binary.flavour
        data.mkdir(mode=0o700, exist_ok=True)
        # In a file, not on the command line, where every user of the machine could read the password.
        _write_private(data / "server.conf", _CONFIG.format(host=ports.LOOPBACK, port=self.port, password=password))
        with self.log_file.open("wb") as log:
            return tether.spawn([str(binary.path), "server.conf"], death_signal=signal.SIGTERM, output=log, cwd=data)

    def _wait_ready(self) -> bool:
        give_up = time.monotonic() + START_TIMEOUT_S
        client = redis.Redis.from_url(self.url, socket_timeout=1, retry=None)
        with client:
            while self.process is not None and self.process.poll() is None and time.monotonic() < give_up:
                try:
                    if client.ping():
                        return True
                except (redis.ConnectionError, redis.TimeoutError):  # not listening yet, or still loading its file
                    time.sleep(0.01)
        return False


def _write_private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
