"""The README is executed: `make up` as a process, then every other command of it against that process.

`make test` is the exception: this is it. Where a command is changed for the test (ports, ids, the interpreter),
`_adapted` says so.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.embedded.binaries import find_postgres, find_redis
from app.embedded.errors import EmbeddedError
from app.embedded.ports import free_port
from app.tools.tickets import select, tickets_on, utc_today
from tests.support.processes import wait_until
from tests.support.project_files import ROOT
from tests.support.services import throwaway_folder

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
POST, SHOW, TIMELINE, DEMO, DURABLE = BLOCKS[2:]
READY_WITHIN_S = 60.0


def test_the_readme_needs_two_commands_and_no_more_to_start() -> None:
    assert BLOCKS[:2] == ["make up\n", "make test\n"]


@pytest.mark.parametrize(("target", "command"), [("up", "-m app up"), ("demo-kill", "-m app demo-kill")])
def test_make_runs_what_this_test_runs(target: str, command: str) -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").split(f"\n{target}:", 1)[1].split("\n\n", 1)[0]
    assert f"$(PY) {command}" in recipe


@dataclass
class Up:
    """A running `up`."""

    process: "subprocess.Popen[bytes]"
    environment: dict[str, str]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environment['PORT']}"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.text()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200) and "\nready:" in self.text()
        except (urllib.error.URLError, OSError):
            return False

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def sh(self, block: str, run_id: str = "") -> str:
        """What a block of the README prints."""
        command = _adapted(block, self.environment["PORT"], run_id)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}\n{self.text()[-4000:]}"
        return done.stdout

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return json.load(answer)


def _adapted(block: str, port: str, run_id: str) -> str:
    python = f"'{sys.executable}' -m app"
    block = block.replace("localhost:8080", f"localhost:{port}")
    block = re.sub(r"(?<=api/runs/)[0-9a-f]{8}\b", run_id[:8], block)
    block = block.replace("make demo-kill", f"{python} demo-kill").replace(".venv/bin/durable", python)
    return block if shutil.which("jq") else re.sub(r" \| jq .*", "", block)


def _environment(folder: Path, mode: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CELERY_"))}
    for name in ("DATABASE_URL", "REDIS_URL", "HOST", "TOOLS", "MODEL"):
        ours.pop(name, None)
    ports = {name: str(free_port()) for name in ("PORT", "FLOWER_PORT", "FAKE_ANTHROPIC_PORT")}
    # A short lease makes demo-kill short; the URL is for `durable`, which else looks at port 8080.
    return {
        **ours,
        **ports,
        "STATE_DIR": str(folder / "state dir"),
        "EMBEDDED": mode,
        "LEASE_S": "5",
        "DURABLE_URL": f"http://127.0.0.1:{ports['PORT']}",
    }


def _need(mode: str) -> None:
    try:
        find_postgres(mode)  # type: ignore[arg-type]
        find_redis(mode)  # type: ignore[arg-type]
        if shutil.which("curl") is None:
            raise EmbeddedError("there is no curl")
    except EmbeddedError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(params=["wheel", "system"])
def up(request: pytest.FixtureRequest) -> Iterator[Up]:
    """`make up` with servers by this route, free ports, and a state folder with a space in its name."""
    _need(request.param)
    folder = throwaway_folder()
    environment = _environment(folder, request.param)
    log = folder / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "up"], cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    started = Up(process, environment, log)
    try:
        wait_until(started.is_ready, within_s=READY_WITHIN_S, what="readiness of `make up`")
        yield started
    finally:
        for child in [*psutil.Process(process.pid).children(recursive=True), process] if _lives(process) else []:
            child.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _lives(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


def _overdue(today: date) -> set[str]:
    return {ticket["id"] for ticket in select(tickets_on(today), "acme", overdue=True)}


@pytest.mark.timeout(240)
def test_every_command_of_the_readme_does_what_it_says(up: Up) -> None:
    before = utc_today()
    posted = json.loads(up.sh(POST))
    assert posted["status"] == "QUEUED"
    run_id = posted["id"]
    wait_until(lambda: up.get(f"/api/runs/{run_id}")["finishedAt"] is not None, within_s=60, what="the run's end")

    run = json.loads(up.sh(SHOW, run_id))
    assert run["status"] == "SUCCEEDED", run
    named = set(re.findall(r"T-\d+", run["output"]))
    assert named in (_overdue(before), _overdue(utc_today()))

    _check_timeline(up.sh(TIMELINE, run_id))
    assert "attempt=2" in up.sh(DEMO)
    followed = up.sh(DURABLE)
    assert "SUCCEEDED" in followed
    assert run_id[:8] in followed
    _check_orderly_stop(up)


def _check_timeline(printed: str) -> None:
    if shutil.which("jq"):
        rows = [json.loads(line)[:3] for line in printed.splitlines()]
    else:
        rows = [[step["seq"], step["kind"], step["status"]] for step in json.loads(printed)]
    assert rows == [[1, "MODEL", "DONE"], [2, "TOOL", "DONE"], [3, "MODEL", "DONE"]]


def _check_orderly_stop(up: Up) -> None:
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 10, children
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(40) == 0, up.text()
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert up.text().rstrip().endswith("stopped")
    assert not (Path(up.environment["STATE_DIR"]) / "up.json").exists()
