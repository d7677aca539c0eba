"""The supervisor over tiny real processes: restart, hold, relay, stop."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.up.child import Child, exit_text, restart_pause_s
from app.cli.up.output import Lines, Output
from app.cli.up.state_dir import HOLD_LIMIT_S, RunningProcess, hold_file
from app.cli.up.supervisor import Supervisor
from app.embedded import tether
from tests.support.processes import wait_until, wait_until_gone


def child(name: str, script: str, *, stage: int = 1, node: str = "") -> Child:
    """A shell script as a child."""

    def launch() -> "subprocess.Popen[bytes]":
        return tether.spawn(["sh", "-c", script], death_signal=signal.SIGKILL, output=subprocess.PIPE)

    return Child(name, launch, stage, node=node, role="model")


@pytest.fixture
def log() -> io.BytesIO:
    """What a person would see."""
    return io.BytesIO()


@pytest.fixture
def supervisor(log: io.BytesIO, tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor in charge; leaving the test stops its children."""
    with Supervisor(Output(log), tmp_path, stop_grace_s=10) as started:
        yield started


def turn_until(supervisor: Supervisor, log: io.BytesIO, text: str) -> None:
    """Run the loop until the log holds `text`."""

    def seen() -> bool:
        supervisor.turn()
        return text in log.getvalue().decode()

    wait_until(seen, what=f"{text!r} in the log")


def test_a_killed_child_is_named_and_started_again(supervisor: Supervisor, log: io.BytesIO) -> None:
    seen: list[tuple[RunningProcess, ...]] = []
    supervisor.on_change = seen.append
    worker = child("worker-A tool", "echo up; exec sleep 60", node="worker-A")
    supervisor.add(worker)
    first = worker.pid
    turn_until(supervisor, log, "worker-A tool | up\n")

    os.kill(first, signal.SIGKILL)

    turn_until(supervisor, log, "worker-A tool process killed with signal 9 (kill -9); restarting in 1s\n")
    assert not seen[-1]
    turn_until(supervisor, log, "1s\nworker-A tool | up\n")
    assert worker.pid != first
    assert seen[-1] == (RunningProcess("worker-A tool", "worker-A", "model", worker.pid, 1),)


def test_a_child_takes_its_stragglers_along(supervisor: Supervisor, log: io.BytesIO) -> None:
    worker = child("worker-A tool", "sleep 60 & echo straggler $!; wait")
    supervisor.add(worker)
    turn_until(supervisor, log, "straggler ")
    straggler = int(log.getvalue().split()[-1])

    os.kill(worker.pid, signal.SIGKILL)

    turn_until(supervisor, log, "kill -9")
    wait_until_gone(straggler)


def test_the_pipe_of_a_dead_child_is_closed_even_if_an_outsider_holds_its_other_end(
    supervisor: Supervisor, log: io.BytesIO
) -> None:
    worker = child("worker-A tool", "setsid sleep 60 & echo outsider $!; wait")
    supervisor.add(worker)
    turn_until(supervisor, log, "outsider ")
    outsider, pipe = int(log.getvalue().split()[-1]), worker.pipe

    os.kill(worker.pid, signal.SIGKILL)
    turn_until(supervisor, log, "kill -9")

    assert pipe is not None
    assert pipe.closed
    os.kill(outsider, signal.SIGKILL)


def test_a_held_node_stays_down_until_the_hold_goes(supervisor: Supervisor, log: io.BytesIO, tmp_path: Path) -> None:
    worker = child("worker-A model", "echo up; exec sleep 60", node="worker-A")
    supervisor.add(worker)
    turn_until(supervisor, log, "up\n")
    hold_file(tmp_path, "worker-A").touch()

    os.kill(worker.pid, signal.SIGKILL)

    turn_until(supervisor, log, "(kill -9); not restarted while")
    worker.not_before = 0.0
    supervisor.turn()
    assert not worker.alive
    hold_file(tmp_path, "worker-A").unlink()
    supervisor.turn()
    assert worker.alive


def test_a_forgotten_hold_no_longer_counts(supervisor: Supervisor, log: io.BytesIO, tmp_path: Path) -> None:
    hold = hold_file(tmp_path, "worker-A")
    hold.touch()
    long_ago = time.time() - HOLD_LIMIT_S - 1
    os.utime(hold, (long_ago, long_ago))
    supervisor.add(child("worker-A model", "exit 3", node="worker-A"))

    turn_until(supervisor, log, "worker-A model process ended with exit code 3; restarting in 1s")


def test_a_child_that_cannot_be_started_again_is_tried_later(supervisor: Supervisor, log: io.BytesIO) -> None:
    worker = child("api", "exec sleep 60")
    supervisor.add(worker)
    worker.launch = _fails

    os.kill(worker.pid, signal.SIGKILL)
    turn_until(supervisor, log, "restarting in 1s")
    worker.not_before = 0.0

    turn_until(supervisor, log, "api process did not start (no such program); next try in 2s")


def _fails() -> "subprocess.Popen[bytes]":
    raise OSError("no such program")


def test_our_own_lines_pass_unchanged_and_others_get_a_name(supervisor: Supervisor, log: io.BytesIO) -> None:
    script = "echo 'worker-A run=6f1c0a52 seq=1 MODEL'; echo Traceback >&2; echo; printf 'no newline'"
    assert supervisor.run_to_end(child("worker-A model", script)) == 0

    assert log.getvalue().decode().splitlines() == [
        "worker-A run=6f1c0a52 seq=1 MODEL",
        "worker-A model | Traceback",
        "worker-A model | no newline",
    ]


def test_a_one_shot_child_reports_its_exit_code(supervisor: Supervisor) -> None:
    assert supervisor.run_to_end(child("migrate", "exit 7")) == 7


def test_children_stop_in_reverse_order_of_their_stages(log: io.BytesIO, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.05; done"
    with Supervisor(Output(log), tmp_path, stop_grace_s=10) as supervisor:
        for name, stage in (("database", 0), ("model", 2), ("worker", 3)):
            supervisor.add(child(name, script, stage=stage))
            turn_until(supervisor, log, f"{name} | up")

    assert log.getvalue().decode().splitlines()[3:] == ["worker | bye", "model | bye", "database | bye"]


def test_a_child_that_does_not_end_is_killed_after_the_grace(log: io.BytesIO, tmp_path: Path) -> None:
    with Supervisor(Output(log), tmp_path, stop_grace_s=0.1) as supervisor:
        stubborn = child("worker", "trap '' TERM; echo up; while :; do sleep 0.05; done")
        supervisor.add(stubborn)
        turn_until(supervisor, log, "up")

    assert "worker process has not ended yet: killed" in log.getvalue().decode()
    assert stubborn.exit_code == -signal.SIGKILL


def test_ctrl_c_stops_and_a_second_one_does_not_wait(log: io.BytesIO, tmp_path: Path) -> None:
    with Supervisor(Output(log), tmp_path, stop_grace_s=600) as supervisor:
        # It answers the request to stop by pressing Ctrl-C for us a second time.
        supervisor.add(child("worker", f"trap 'kill -INT {os.getpid()}' TERM; echo up; while :; do sleep 0.05; done"))
        turn_until(supervisor, log, "up")
        os.kill(os.getpid(), signal.SIGINT)
        assert supervisor.stop_requested

    assert "worker process has not ended yet: killed" in log.getvalue().decode()


def test_nothing_survives_the_sudden_death_of_the_supervisor() -> None:
    script = (
        "import subprocess, signal, sys; from app.embedded.tether import spawn\n"
        "child = spawn(['sleep', '60'], death_signal=signal.SIGKILL, output=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()

    wait_until_gone(pid)


def test_nobody_reading_the_log_means_stop(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with (
        os.fdopen(write_end, "wb", buffering=0) as stream,
        Supervisor(Output(stream), tmp_path, stop_grace_s=10) as supervisor,
    ):
        supervisor.add(child("api", "echo up; exec sleep 60"))

        def told_to_stop() -> bool:
            supervisor.turn()
            return supervisor.stop_requested

        wait_until(told_to_stop)


@pytest.mark.parametrize(("failures", "pause_s"), [(1, 1), (2, 2), (5, 16), (6, 30), (10_000, 30)])
def test_pause_before_a_restart_doubles_up_to_a_cap(failures: int, pause_s: float) -> None:
    assert restart_pause_s(failures) == pause_s


def test_exit_is_said_in_words() -> None:
    assert exit_text(-9) == "killed with signal 9 (kill -9)"
    assert exit_text(-11) == "killed with signal 11 (SIGSEGV)"
    assert exit_text(1) == "ended with exit code 1"


def test_lines_are_whole_and_an_endless_one_is_cut() -> None:
    lines = Lines()
    assert lines.feed(b"one\r\ntw") == [b"one"]
    assert lines.feed(b"o\nthree") == [b"two"]
    assert lines.finish() == [b"three"]
    assert lines.feed(b"x" * 100_000) == [b"x" * 100_000]
