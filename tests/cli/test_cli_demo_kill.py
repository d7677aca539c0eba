"""`durable demo-kill` over a real API and real processes; this test, which owns the store, plays the two nodes."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.up.state_dir import RunningProcess, UpState, hold_file, owned, write_up_state
from app.domain.run import Dispatch
from app.domain.status import StopCode
from app.llm.fake_server import FakeServer
from app.store.lapse import Lapsed
from app.store.store import Store
from tests.support.api_site import Bell, Site, serving, site_over
from tests.support.builders import AGENT, answer, claimed, returned, text_answer

SLOW = [{"type": "tool_use", "id": "toolu_1", "name": "slow_ticket_report", "input": {}}]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]


class TwoNodes:
    """Node A dies in its tool call; node B takes over once A's processes are really dead."""

    def __init__(self, site: Site, bell: Bell, fake_url: str, state_dir: Path) -> None:
        self.site, self.bell, self.fake_url, self.state_dir = site, bell, fake_url, state_dir
        self.node_a = [subprocess.Popen(SLEEPER, start_new_session=True) for _ in range(2)]
        self.node_b = subprocess.Popen(SLEEPER, start_new_session=True)
        self.second_tool_node = "worker-B"
        self.held_during_takeover = False

    def processes(self) -> tuple[RunningProcess, ...]:
        roles = zip(self.node_a, ("model", "tool"), strict=True)
        a = [RunningProcess(f"worker-A {role}", "worker-A", role, child.pid, 0) for child, role in roles]
        b = RunningProcess("worker-B tool", "worker-B", "tool", self.node_b.pid, 0)
        return (*a, b, RunningProcess("fake-anthropic", "", "fake-anthropic", self.node_b.pid, 0))

    def play(self) -> None:
        first = self.bell.calls.get(timeout=30)
        assert first is not None
        try:
            self._play(first)
        except BaseException:
            # Or the command would wait for the end of a run that nobody works on.
            self.site.store.stop_run(first.run_id, StopCode.CANCELLED)
            raise

    def _play(self, first: Dispatch) -> None:
        store = self.site.store
        claim = claimed(store, first.run_id, first.seq, "worker-A.1/1/t/1")
        self.call_model(store.get_run("default", first.run_id).input)
        store.finish_model_step(claim.lease, answer(SLOW, stop_reason="tool_use"), AGENT)
        dead = claimed(store, first.run_id, 2, "worker-A.1/1/t/2").lease
        for child in self.node_a:
            child.wait()
        self.held_during_takeover = hold_file(self.state_dir, "worker-A").exists()
        store.lapse_step(Lapsed(dead.run_id, dead.seq, dead.owner, when_due=False))
        again = claimed(store, first.run_id, 2, f"{self.second_tool_node}.1/1/t/3")
        store.finish_tool_step(again.lease, returned("done"))
        last = claimed(store, first.run_id, 3, "worker-B.1/1/t/4")
        self.call_model(store.get_run("default", first.run_id).input)
        store.finish_model_step(last.lease, text_answer("Done."), AGENT)

    def call_model(self, run_input: str) -> None:
        body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": json.loads(run_input)}]}
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.fake_url}/v1/messages", json.dumps(body).encode(), headers)
        urllib.request.urlopen(request).close()

    def close(self) -> None:
        for child in (*self.node_a, self.node_b):
            child.kill()
            child.wait()


@pytest.fixture
def nodes(sqlite_store: Store, tmp_path: Path) -> Iterator[TwoNodes]:
    bell = Bell()
    site = site_over(sqlite_store, bell)
    with FakeServer() as fake, serving(site) as url, owned(tmp_path):
        nodes = TwoNodes(site, bell, fake.url, tmp_path)
        write_up_state(tmp_path, UpState(1, url, "", fake.url, "", "", nodes.processes()))
        yield nodes
        nodes.close()


@contextmanager
def played(play: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=play)
    thread.start()
    yield
    thread.join()


def demo_kill(state_dir: Path) -> Result:
    return CliRunner().invoke(main, ["demo-kill", "--state-dir", str(state_dir)])


def test_node_is_killed_and_the_other_one_finishes(nodes: TwoNodes, tmp_path: Path) -> None:
    with played(nodes.play):
        result = demo_kill(tmp_path)
    assert result.exit_code == 0, result.output
    assert [child.poll() for child in nodes.node_a] == [-9, -9]
    assert nodes.node_b.poll() is None
    assert "worker-A killed with kill -9: tool process" in result.stdout
    assert "worker-B seq=2 TOOL slow_ticket_report DONE attempt=2" in result.stdout
    assert "the model was called 2 times" in result.stdout
    assert nodes.held_during_takeover
    assert not hold_file(tmp_path, "worker-A").exists()


def test_third_model_call_or_the_wrong_node_is_told_as_a_failure(nodes: TwoNodes, tmp_path: Path) -> None:
    nodes.second_tool_node = "worker-A"
    call = nodes.call_model
    nodes.call_model = lambda run_input: (call(run_input), call(run_input))  # type: ignore[method-assign, assignment]
    with played(nodes.play):
        result = demo_kill(tmp_path)
    assert result.exit_code == 1
    assert "called 4 times, not twice" in result.stderr
    assert "finished by worker-A, the node that was killed" in result.stderr
    assert not hold_file(tmp_path, "worker-A").exists()


def test_without_a_running_up_it_says_how_to_start_one(tmp_path: Path) -> None:
    result = demo_kill(tmp_path)
    assert result.exit_code == 1
    assert "make up" in result.stderr
