"""The processes of the product, as data: what is started, under which name, with which command and environment."""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from app.cli.up.plan import UpPlan
from app.embedded.ports import LOOPBACK

_CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "tasks")
_FLOWER_FLAGS = (
    "--tasks_columns=name,uuid,kwargs,state,received,started,runtime,worker",
    "--task_runtime_metric_buckets=0.1,0.5,1,2,5,10,30,60,120,300,600",
    "--purge_offline_workers=900",
    "--max_tasks=50000",
    "--read_only",
)
# Celery tells root at length to be another user, in every process: nothing here unpickles what it is sent. And at every
# lost connection it tells of late acknowledgement, which is not used here.
_QUIET = "ignore:::celery.platforms,ignore:::celery.worker.consumer.consumer"


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process.

    Attributes:
        name: what the log calls it, `worker-A tool` or `api`.
        node: the worker machine it stands for; empty for the rest.
        role: model, tool, maintenance, beat, flower, api, fake-anthropic or migrate.
        argv: the command.
        env: what is set on top of our own environment.
        stage: a higher one is started later and stopped earlier.
        death_signal: what it gets if we are killed. A worker is killed too, for that is what its leases are for.
    """

    name: str
    node: str
    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stage: int
    death_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything answers, as URLs. `anthropic` is empty for the SDK's default."""

    database: str
    redis: str
    anthropic: str
    api: str
    flower: str


def migrate_spec(plan: UpPlan, at: Addresses) -> ProcessSpec:
    """The one-shot process that brings the schema up to date."""
    return ProcessSpec("migrate", "", "migrate", _python("app", "migrate"), environment(plan, at, "migrate"), 1)


def fake_model_spec(plan: UpPlan, at: Addresses) -> ProcessSpec:
    """The local Messages API server."""
    argv = _python("app", "fake-anthropic", "--host", LOOPBACK, "--port", str(plan.fake_anthropic_port))
    return ProcessSpec("fake-anthropic", "", "fake-anthropic", argv, environment(plan, at, "fake-anthropic"), 2)


def fleet(plan: UpPlan, at: Addresses) -> list[ProcessSpec]:
    """Everything that runs once the schema is there, in the order of the start."""
    specs = [_api(plan, at)]
    for node in plan.nodes:
        specs += [_worker(plan, at, node, "model"), _worker(plan, at, node, "tool")]
    return [*specs, _worker(plan, at, "", "maintenance"), _beat(plan, at), _flower(plan, at)]


def environment(plan: UpPlan, at: Addresses, node: str) -> dict[str, str]:
    """The settings of one process; `app.config` reads them by these names."""
    env = {
        "DATABASE_URL": at.database,
        "REDIS_URL": at.redis,
        "NODE_NAME": node,
        "STATE_DIR": str(plan.state_dir.resolve()),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", _QUIET),
        # The SDK insists on a key; the fake server takes any.
        "ANTHROPIC_API_KEY": plan.anthropic_api_key or "local-fake-key",
    }
    if at.anthropic:
        env["ANTHROPIC_BASE_URL"] = at.anthropic
    return env


def _python(module: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *words)


def _api(plan: UpPlan, at: Addresses) -> ProcessSpec:
    host = f"[{plan.host}]" if ":" in plan.host else plan.host
    words = ["app.wsgi:app", "--bind", f"{host}:{plan.port}", "--worker-class", "gthread", "--workers", "1"]
    # The control socket lies in the home folder: a second server of the same user would clash with it.
    words += ["--threads", str(plan.api_threads), "--no-control-socket", "--graceful-timeout", "5"]
    return ProcessSpec("api", "", "api", _python("gunicorn", *words), environment(plan, at, "api"), 3)


def _worker(plan: UpPlan, at: Addresses, node: str, role: str) -> ProcessSpec:
    pool, slots = {"model": ("threads", plan.model_slots), "tool": ("prefork", plan.tool_slots)}.get(
        role, ("threads", 2)
    )
    place = node or "up"
    queues = ",".join(plan.tool_queues) if role == "tool" else role
    words = ("worker", "-P", pool, "-c", str(slots), "-Q", queues, "-n", f"{role}@{place}")
    env = environment(plan, at, node or role)
    argv = (*_CELERY, *words, "-E", "--without-gossip", "--without-mingle")
    return ProcessSpec(f"{node} {role}".strip(), node, role, argv, env, 3, signal.SIGKILL)


def _beat(plan: UpPlan, at: Addresses) -> ProcessSpec:
    # The default scheduler keeps a file that can break; ours has nothing to remember.
    argv = (*_CELERY, "beat", "-S", "celery.beat:Scheduler", "--pidfile=")
    return ProcessSpec("beat", "", "beat", argv, environment(plan, at, "beat"), 4)


def _flower(plan: UpPlan, at: Addresses) -> ProcessSpec:
    argv = (*_CELERY, "flower", f"--address={LOOPBACK}", f"--port={plan.flower_port}", *_FLOWER_FLAGS)
    return ProcessSpec("flower", "", "flower", argv, environment(plan, at, "flower"), 4)


def inherited(spec: ProcessSpec) -> dict[str, str]:
    """The whole environment of a process: ours, with the settings of the spec on top."""
    return {**os.environ, **spec.env}
