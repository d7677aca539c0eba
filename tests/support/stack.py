"""A real stack for process tests: Postgres, a broker, the fake Messages API, and Celery workers as processes.

Waiting is for states of the database or of processes, with a limit; never for time to pass.
"""

import functools
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from celery import Celery

from app.config import Settings
from app.domain.agent import AgentVersion
from app.domain.run import NewRun, RunView, StepView
from app.domain.status import ShownStatus, StepStatus
from app.llm.fake_server import FakeServer
from app.store.dialect import open_engine
from app.store.store import Store
from app.tools.registry import Registry
from tasks.configuration import configuration
from tasks.dispatch import CeleryDispatcher

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], *, within_s: float = 30.0) -> T:
    """What `look` returns once it is truthy; an AssertionError that says `what` was waited for in vain."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {within_s:g} s in vain for {what}")


def calls(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A scripted turn that asks for these tools, by name and arguments."""
    blocks = [
        {"type": "tool_use", "id": f"toolu_{n:02}", "name": name, "input": arguments}
        for n, (name, arguments) in enumerate(tools)
    ]
    return {"content": blocks, "stop_reason": "tool_use"}


def says(text: str = "done", **more: Any) -> dict[str, Any]:
    """A scripted turn that ends the run."""
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", **more}


@dataclass
class Worker:
    """A Celery worker process and its children."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def is_up(self) -> bool:
        return self.process.poll() is None

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9 of the worker's main process only: its children must end by themselves."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self, within_s: float = 20.0) -> int:
        """SIGTERM, then wait for the exit code."""
        if self.is_up():
            self.thaw()
            self.process.terminate()
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(5)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def is_ready(self) -> bool:
        assert self.is_up(), f"{self.name} ended: {self.text()}"
        return " ready, consumes " in self.text()


@dataclass
class Stack:
    """Everything a worker needs, and ways to look at it from outside."""

    database_url: str
    redis_url: str
    fake: FakeServer
    folder: Path
    tools: str = "app.tools.tickets,tests.support.process_tools"
    lease_s: float = 5.0
    settings: dict[str, str] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store(open_engine(self.database_url, pool_size=4), lease_s=self.lease_s)
        self.celery = Celery("test", set_as_current=False)
        self.celery.config_from_object(configuration(Settings(redis_url=self.redis_url), ["model", "tool"]))
        self.dispatcher = CeleryDispatcher(self.celery)

    def environment(self, node: str) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "ANTHROPIC_BASE_URL": self.fake.url,
            "ANTHROPIC_API_KEY": "test-key",
            "TOOLS": self.tools,
            "LEASE_S": str(self.lease_s),
            "NODE_NAME": node,
            "EFFECTS_FILE": str(self.folder / "effects"),
            **self.settings,
        }

    def start(self, node: str, role: str, *, slots: int = 2) -> Worker:
        """Start one worker process: role `model`, `tool` or `maintenance`."""
        pool = "prefork" if role == "tool" else "threads"
        name = f"{role}@{node}"
        log = self.folder / f"{name}-{len(self.workers)}.log"
        words = ["worker", "-n", name, "-P", pool, "-Q", role, "-c", str(slots), "-E"]
        return self._launch(name, node, log, [*words, "--without-gossip", "--without-mingle"])

    def start_beat(self) -> Worker:
        log = self.folder / f"beat-{len(self.workers)}.log"
        return self._launch("beat", "beat", log, ["beat", "-S", "celery.beat:Scheduler", "--pidfile="])

    def _launch(self, name: str, node: str, log: Path, words: list[str]) -> Worker:
        command = [sys.executable, "-m", "celery", "--quiet", "-A", "tasks", *words]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(node), stdout=out, stderr=subprocess.STDOUT
            )
        worker = Worker(name, process, log)
        self.workers.append(worker)
        return worker

    def start_node(self, node: str, *, slots: int = 3) -> tuple[Worker, Worker]:
        """A node: one model and one tool process."""
        return self.start(node, "model", slots=slots), self.start(node, "tool", slots=slots)

    def start_sweeping(self) -> None:
        """The maintenance worker and beat."""
        self.start("maintenance", "maintenance")
        self.start_beat()

    def ready(self) -> None:
        """Wait until every worker that was not ended consumes."""
        for worker in self.workers:
            if worker.name != "beat" and worker.is_up():
                wait_for(f"{worker.name} to be ready", worker.is_ready, within_s=40)

    def submit(self, *turns: dict[str, Any], **limits: Any) -> str:
        """A run whose model answers with these turns; returns its id, which names its script too."""
        key = uuid.uuid4().hex
        self.fake.script(key, turns)
        run_id, dispatch = self.store.create_run(self.new_run(f"hello [script:{key}]", **limits))
        self.keys[run_id] = key
        self.dispatcher.dispatch([dispatch])
        return run_id

    def model_calls(self, run_id: str) -> int:
        """How often the model was asked for this run."""
        return len(self.fake.requests(self.keys[run_id]))

    def asked(self, *run_ids: str) -> None:
        """Wait until the model is being asked for each of these runs."""
        for run_id in run_ids:
            wait_for(f"a model call of {run_id}", functools.partial(self.model_calls, run_id))

    def new_run(self, text: str, **limits: Any) -> NewRun:
        tools = Registry(modules=self.tools.split(","), plugins=()).definitions()
        agent = AgentVersion("claude-sonnet-5-5", 4096, "You are a test.", tools)
        return NewRun(agent, text, **({"token_budget": 1_000_000, "timeout_s": 120.0, "step_cap": 50} | limits))

    def run(self, run_id: str) -> RunView:
        return self.store.get_run(None, run_id)

    def step(self, run_id: str, seq: int) -> StepView | None:
        return next((step for step in self.store.timeline(run_id) if step.seq == seq), None)

    def started(self, run_id: str, seq: int) -> StepView:
        """Wait until the step is being worked on."""

        def look() -> StepView | None:
            step = self.step(run_id, seq)
            return step if step and step.status is StepStatus.STARTED else None

        return wait_for(f"step {seq} to be started", look)

    def finished(self, run_id: str, *, within_s: float = 40.0) -> RunView:
        """Wait until the run is terminal."""

        def look() -> RunView | None:
            run = self.run(run_id)
            return run if run.finished_at else None

        try:
            return wait_for(f"run {run_id} to end", look, within_s=within_s)
        except AssertionError as error:
            logs = "\n".join(f"--- {worker.name}\n{worker.text()[-3000:]}" for worker in self.workers)
            steps = "\n".join(map(str, self.store.timeline(run_id)))
            raise AssertionError(f"{error}\n{steps}\n{logs}") from error

    def succeeded(self, *run_ids: str, within_s: float = 40.0) -> None:
        """Wait until these runs have ended, and well."""
        for run_id in run_ids:
            run = self.finished(run_id, within_s=within_s)
            assert run.status is ShownStatus.SUCCEEDED, f"{run}\n{self.store.timeline(run_id)}"

    def effects(self, run_id: str = "") -> list[str]:
        """The lines that tools with effects wrote; of one run, or all."""
        path = self.folder / "effects"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if run_id in line]

    def close(self) -> None:
        for worker in reversed(self.workers):
            if worker.is_up():
                worker.thaw()
                worker.process.terminate()
        for worker in reversed(self.workers):
            worker.stop(15)
        self.celery.close()
        self.store.close()


MakeStack = Callable[..., Stack]


def stacks(database_url: str, redis_url: str, folder: Path, **fields: Any) -> Iterator[Stack]:
    """For fixtures: a stack without workers yet, closed afterwards."""
    with FakeServer() as fake:
        stack = Stack(database_url, redis_url, fake, folder, **fields)
        try:
            yield stack
        finally:
            stack.close()
