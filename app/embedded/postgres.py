"""A private PostgreSQL: its data folder, its password, its port and its process.

TCP on loopback only: no Unix socket, whose path must be short. fsync and checksums are on. A crash of ours ends the
server by a fast shutdown; what it leaves behind (a pid file, a held port) is no obstacle to the next start.
"""

import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from app.embedded import account, binaries, pid_file, ports, tether
from app.embedded.data_folder import data_major, last_words, make_data
from app.embedded.errors import EmbeddedError

START_TIMEOUT_S = 60.0  # recovery after a crash of a busy server takes its time
STOP_TIMEOUT_S = 20.0
_LOG_LIMIT_BYTES = 10_000_000
# Leftovers of a killed server that pass by themselves: its last processes, or a port somebody just took.
_PASSING = re.compile(rb"is still in use|could not bind|another server might be running|lock file .* already exists")


class Postgres:
    """One server over `state_dir/pg`; start it again after a stop or a crash as often as you like."""

    def __init__(self, state_dir: Path, mode: binaries.Mode = "auto", *, port: int = 0, sync: bool = True) -> None:
        """Name the server; nothing is touched yet.

        Args:
            state_dir: an existing folder.
            mode: which programs may be used, see `binaries.find_postgres`.
            port: a fixed port, or 0 for the one of last time, else any free one.
            sync: flush a newly made data folder to disk. Tests that throw it away say False; fsync itself stays on.
        """
        self._home = state_dir.resolve() / "pg"
        self._mode = mode
        self._fixed_port = port
        self._sync = sync
        self._site: account.Site | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.major = 0
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
        """Process id of the postmaster, 0 when none was started."""
        return self.process.pid if self.process else 0

    @property
    def log_file(self) -> Path:
        """What the server says."""
        return (self._site.home if self._site else self._home) / "server.log"

    def start(self) -> str:
        """Start it, making the data folder first if need be, and wait until it answers.

        Returns:
            A SQLAlchemy URL of the database `postgres`, password included.

        Raises:
            EmbeddedError: no usable programs, data of another major version, or the server's own reason.
        """
        site = self._prepare()
        give_up = time.monotonic() + START_TIMEOUT_S
        while True:
            pid_file.clear_stale(site.home / "data", give_up)
            port = self._next_port(site)
            told = self.log_file.stat().st_size if self.log_file.exists() else 0
            self.process = self._launch(site, port)
            if _comes_up(self.process, site.home / "data", give_up):
                break
            self.stop()
            reason = self.log_file.read_bytes()[told:]
            if time.monotonic() > give_up or not _PASSING.search(reason):
                raise EmbeddedError(f"PostgreSQL did not start: {last_words(reason)} (log: {self.log_file})")
            time.sleep(0.2)
        self.port = port
        (site.home / "port").write_text(str(port))
        password = (site.home / "password").read_text()
        self.url = f"postgresql+psycopg://postgres:{password}@{ports.LOOPBACK}:{self.port}/postgres"
        return self.url

    def stop(self) -> None:
        """Fast shutdown: sessions are cut, everything committed is on disk. Harmless when it does not run."""
        if self.process is None:
            return
        for stop_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            self.process.send_signal(stop_signal)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue

    def _next_port(self, site: account.Site) -> int:
        # Once it ran, it keeps its port: others hold its URL.
        port = ports.settled_port(site.home / "port", self._fixed_port or self.port)
        if not ports.is_free(port):
            raise EmbeddedError(f"port {port} for PostgreSQL is in use")
        return port

    def _prepare(self) -> account.Site:
        found = binaries.find_postgres(self._mode, data_major(self._site.home if self._site else self._home))
        site = account.settle(found.bin_dir, self._home)
        if (major := data_major(site.home)) not in (None, found.major):  # the data was found under /var
            found = binaries.find_postgres(self._mode, major)
            site = account.settle(found.bin_dir, self._home)
        self._site, self.major = site, found.major
        if data_major(site.home) is None:
            make_data(site, sync=self._sync)
        elif not (site.home / "password").exists():
            raise EmbeddedError(f"{site.home}/password is missing: put it back, or move {site.home} away")
        return site

    def _launch(self, site: account.Site, port: int) -> "subprocess.Popen[bytes]":
        settings = {
            "listen_addresses": ports.LOOPBACK,
            "port": port,
            "unix_socket_directories": "",
            "fsync": "on",
            "max_connections": 200,
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        grown = self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT_BYTES
        with self.log_file.open("wb" if grown else "ab") as log:
            return tether.spawn(
                [*site.prefix, str(site.bin_dir / "postgres"), "-D", str(site.home / "data"), *flags],
                death_signal=signal.SIGINT,
                output=log,
                cwd=site.home,
                account=site.account,
            )


def _comes_up(process: "subprocess.Popen[bytes]", data: Path, give_up: float) -> bool:
    while process.poll() is None and time.monotonic() < give_up:
        if pid_file.says_ready(data, process.pid):
            return True
        time.sleep(0.01)
    return False
