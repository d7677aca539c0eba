"""The embedded PostgreSQL: real servers, by both routes."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from app.embedded.binaries import Mode
from app.embedded.errors import EmbeddedError
from app.embedded.postgres import Postgres
from app.embedded.tether import spawn
from tests.support.processes import wait_until_gone


def run(url: str, statement: str) -> None:
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as connection:
        connection.execute(statement)


def ask(url: str, query: str) -> str:
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])


def test_data_url_and_port_survive_a_restart(mode: Mode, any_state_dir: Path) -> None:
    with Postgres(any_state_dir, mode, sync=False) as first:
        run(first.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        url = first.url

    with Postgres(any_state_dir, mode) as second:
        assert second.url == url
        assert ask(second.url, "SELECT answer FROM kept") == "42"


def test_a_killed_server_starts_again_over_its_stale_pid_file(mode: Mode, state_dir: Path) -> None:
    with Postgres(state_dir, mode, sync=False) as server:
        url = server.url
        run(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(server.pid, signal.SIGKILL)
        assert server.process is not None
        server.process.wait()

        assert server.start() == url
        assert ask(url, "SELECT answer FROM kept") == "42"


def test_a_pid_file_whose_number_another_process_has_now_is_no_obstacle(mode: Mode, state_dir: Path) -> None:
    server = Postgres(state_dir, mode, sync=False)
    server.start()
    pid_file = server.log_file.parent / "data" / "postmaster.pid"
    content, owner = pid_file.read_text(), pid_file.stat()
    server.stop()
    # PostgreSQL gives way to a process of its own account only, unless that is its parent.
    account = (owner.st_uid, owner.st_gid) if owner.st_uid != os.geteuid() else None
    stranger = spawn(["sleep", "60"], death_signal=signal.SIGKILL, output=subprocess.DEVNULL, account=account)
    pid_file.write_text(content.replace(content.split("\n")[0], str(stranger.pid), 1))

    with server:
        assert ask(server.url, "SELECT 1") == "1"
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_commits_reach_the_disk_and_only_loopback_with_a_password_is_served(mode: Mode, state_dir: Path) -> None:
    with Postgres(state_dir, mode, sync=False) as server:
        wanted = {"fsync": "on", "data_checksums": "on", "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        assert {name: ask(server.url, f"SHOW {name}") for name in wanted} == wanted
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", password="wrong")
        password = server.log_file.parent / "password"
        assert stat.S_IMODE(password.stat().st_mode) == 0o600
        assert password.read_text() not in str(server.process and server.process.args)


def test_a_taken_port_is_replaced_unless_it_was_asked_for(mode: Mode, state_dir: Path) -> None:
    with Postgres(state_dir, mode, sync=False) as first:
        port = first.port
    other = state_dir.parent / "other"
    other.mkdir()
    with Postgres(other, mode, port=port, sync=False):
        with Postgres(state_dir, mode) as moved:
            assert moved.port != port
        with pytest.raises(EmbeddedError, match=f"port {port} for PostgreSQL is in use"):
            Postgres(state_dir, mode, port=port).start()


def test_data_of_another_major_version_is_refused_and_left_alone(mode: Mode, state_dir: Path) -> None:
    server = Postgres(state_dir, mode, sync=False)
    server.start()
    server.stop()
    version = server.log_file.parent / "data" / "PG_VERSION"
    written = version.read_text()
    version.write_text("12\n")

    with pytest.raises(EmbeddedError, match=f"written by PostgreSQL 12, but only version {written.strip()}"):
        Postgres(state_dir, mode).start()

    version.write_text(written)
    with server:
        assert ask(server.url, "SELECT 1") == "1"


def test_the_server_ends_in_good_order_when_its_owner_is_killed(mode: Mode, any_state_dir: Path) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, signal; from pathlib import Path; from app.embedded.postgres import Postgres\n"
            "server = Postgres(Path(sys.argv[1]), sys.argv[2], sync=False); server.start()\n"
            "print(server.pid, flush=True); signal.pause()",
            str(any_state_dir),
            mode,
        ],
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()

    wait_until_gone(pid)
    with Postgres(any_state_dir, mode) as server:
        assert "database system is shut down" in server.log_file.read_text()
        assert "not properly shut down" not in server.log_file.read_text()
