"""Real servers for tests: one PostgreSQL per session with a database per test, and a Redis that may be killed.

EMBEDDED=system|wheel chooses the route, as for `up`. The folders are throw-away and outside of pytest's private
ones, which a server that root starts under another account could not reach.
"""

import itertools
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import cast

import psycopg
from psycopg import sql

from app.embedded.binaries import Mode
from app.embedded.postgres import Postgres
from app.embedded.redis_server import RedisServer


def embedded_mode() -> Mode:
    """The route that this test session takes to its servers."""
    return cast(Mode, os.environ.get("EMBEDDED", "auto"))


def throwaway_folder() -> Path:
    """A new folder that a server under another account can pass through."""
    folder = Path(tempfile.mkdtemp(prefix="durable-test-"))
    folder.chmod(0o711)
    return folder


class PostgresServer:
    """A running server; every database it makes is new."""

    def __init__(self) -> None:
        """Start it over a new folder."""
        self._folder = throwaway_folder()
        self._server = Postgres(self._folder, embedded_mode(), sync=False)
        self._numbers = itertools.count(1)
        self.admin_url = self._server.start()

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        return self._server.pid

    def create_database(self, name: str = "", template: str | None = None) -> str:
        """Make a database, as a copy of the database `template` if given (nobody may be connected to that one).

        Returns:
            Its SQLAlchemy URL.
        """
        name = name or f"test_{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template or "template0")
        )
        self._run(statement)
        return self.admin_url.rsplit("/", 1)[0] + f"/{name}"

    def drop_database(self, name: str) -> None:
        """Remove a database, cutting whoever is connected."""
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def crash(self) -> None:
        """Immediate shutdown: every connection is cut at once, and the next start recovers from the log."""
        if self._server.process is not None:
            self._server.process.send_signal(signal.SIGQUIT)
            self._server.process.wait(20)

    def start(self) -> None:
        """Start it again after `stop`, on the same port."""
        self._server.start()

    def stop(self) -> None:
        """Stop it and keep the data."""
        self._server.stop()

    def close(self) -> None:
        """Stop it and delete everything."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin_url.replace("+psycopg", "", 1), autocommit=True) as connection:
            connection.execute(statement)


class RedisTestServer:
    """A running server that can be killed and started again on the same port."""

    def __init__(self) -> None:
        """Start it over a new folder."""
        self._folder = throwaway_folder()
        self._server = RedisServer(self._folder, embedded_mode())
        self.url = self._server.start()
        self.port = self._server.port

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._server.pid

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._server.process is not None:
            self._server.process.kill()
            self._server.process.wait()

    def start(self) -> None:
        """Start it again, on the same port and with the data of its append-only file."""
        self._server.start()

    def stop(self) -> None:
        """End it in good order and keep the data."""
        self._server.stop()

    def close(self) -> None:
        """Stop it and delete everything."""
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def start_postgres() -> PostgresServer:
    """A PostgreSQL of its own for a test session: `.admin_url`, `.create_database(name, template)`, `.close()`."""
    return PostgresServer()


def start_redis() -> RedisTestServer:
    """A Redis of its own: `.url`, `.pid`, `.port`, `.kill()`, `.start()`, `.stop()`, `.close()`."""
    return RedisTestServer()
