"""`up`: everything the product needs, in one terminal.

Order: lock, ports, services, schema, model server, the fleet. Whatever goes wrong, what was started is stopped again.
"""

import http.client
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import BinaryIO

from app.cli.up.child import Child, child_of
from app.cli.up.fleet import Addresses, fake_model_spec, fleet, migrate_spec
from app.cli.up.output import Output
from app.cli.up.plan import UpPlan, busy_port
from app.cli.up.state_dir import RunningProcess, StateDirTaken, UpState, owned, write_up_state
from app.cli.up.supervisor import Supervisor
from app.embedded.errors import EmbeddedError
from app.embedded.ports import LOOPBACK
from app.embedded.postgres import Postgres
from app.embedded.redis_server import RedisServer

_SERVICES_STAGE = 0
_LOOK_EVERY_S = 0.5


def up(plan: UpPlan, stream: BinaryIO | None = None) -> int:
    """Start everything and stay until Ctrl-C or SIGTERM.

    Args:
        plan: what to start.
        stream: where the log goes; standard output if None.

    Returns:
        0 after an orderly stop; 1 when it could not start, with the reason in the log.
    """
    output = Output(stream or sys.stdout.buffer)
    try:
        with owned(plan.state_dir):
            if sentence := busy_port(plan):
                output.say(sentence)
                return 1
            with Supervisor(output, plan.state_dir, stop_grace_s=plan.stop_grace_s) as supervisor:
                code = _run(plan, output, supervisor)
                output.say(f"stopping; what is under way gets {plan.stop_grace_s:.0f} s, a second Ctrl-C ends it now")
            output.say("stopped")
            return code
    except (StateDirTaken, EmbeddedError) as error:
        output.say(str(error))
        return 1


def _run(plan: UpPlan, output: Output, supervisor: Supervisor) -> int:
    at = _addresses(plan)
    database = _start_postgres(plan, output, supervisor) or plan.database_url
    broker = _start_redis(plan, output, supervisor) or plan.redis_url
    at = replace(at, database=database, redis=broker)
    supervisor.on_change = lambda processes: write_up_state(plan.state_dir, _state(at, processes))
    code = supervisor.run_to_end(child_of(migrate_spec(plan, at)))
    if supervisor.stop_requested:
        return 0
    if code:
        output.say("the database schema could not be brought up to date: see the lines of `migrate` above")
        return 1
    _serve(plan, at, output, supervisor)
    return 0


def _serve(plan: UpPlan, at: Addresses, output: Output, supervisor: Supervisor) -> None:
    if plan.needs_fake_model:
        output.say(f"no ANTHROPIC_API_KEY: the model is the local Messages API server at {at.anthropic}")
        supervisor.add(child_of(fake_model_spec(plan, at)))
    for spec in fleet(plan, at):
        supervisor.add(child_of(spec))
    next_look: float | None = 0.0
    while not supervisor.stop_requested:
        supervisor.turn()
        if next_look is not None and time.monotonic() > next_look:
            next_look = time.monotonic() + _LOOK_EVERY_S
            if is_ready(plan.reachable_host, plan.port):
                _announce(at, output)
                next_look = None


def _addresses(plan: UpPlan) -> Addresses:
    fake = f"http://{LOOPBACK}:{plan.fake_anthropic_port}"
    host = plan.reachable_host
    return Addresses(
        database=plan.database_url,
        redis=plan.redis_url,
        anthropic=fake if plan.needs_fake_model else plan.anthropic_base_url,
        api=f"http://{f'[{host}]' if ':' in host else host}:{plan.port}",
        flower=f"http://{LOOPBACK}:{plan.flower_port}",
    )


def _start_postgres(plan: UpPlan, output: Output, supervisor: Supervisor) -> str:
    if plan.database_url:
        return ""
    server = Postgres(plan.state_dir, plan.embedded, port=plan.postgres_port)
    supervisor.add(Child("postgres", lambda: _started(server), _SERVICES_STAGE, signal.SIGINT, role="postgres"))
    output.say(f"PostgreSQL {server.major} on port {server.port}, log {os.path.relpath(server.log_file)}")
    return server.url


def _start_redis(plan: UpPlan, output: Output, supervisor: Supervisor) -> str:
    if plan.redis_url:
        return ""
    server = RedisServer(plan.state_dir, plan.embedded, port=plan.redis_port)
    supervisor.add(Child("redis", lambda: _started(server), _SERVICES_STAGE, role="redis"))
    output.say(f"{server.flavour} on port {server.port}, log {os.path.relpath(server.log_file)}")
    return server.url


def _started(server: Postgres | RedisServer) -> "subprocess.Popen[bytes]":
    server.start()
    if server.process is None:
        raise EmbeddedError("the server ended as soon as it was started")
    return server.process


def _state(at: Addresses, processes: tuple[RunningProcess, ...]) -> UpState:
    return UpState(os.getpid(), at.api, at.flower, at.anthropic, at.database, at.redis, processes)


def is_ready(host: str, port: int) -> bool:
    """Whether the API says that it can serve."""
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _announce(at: Addresses, output: Output) -> None:
    output.say("ready:")
    output.say(f"  API           {at.api}/api/runs")
    output.say(f"  Flower        {at.flower}")
    output.say(f"  Messages API  {at.anthropic or 'api.anthropic.com'}")
    output.say("Ctrl-C stops everything")
