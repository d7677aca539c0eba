"""What `up` would start, and what makes it refuse."""

import io
import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.up import UpPlan, up
from app.cli.up.fleet import Addresses, ProcessSpec, fake_model_spec, fleet
from app.cli.up.plan import busy_port
from app.cli.up.state_dir import (
    RunningProcess,
    StateDirTaken,
    UpState,
    is_held,
    owned,
    read_up_state,
    write_up_state,
)
from app.embedded.ports import free_port

AT = Addresses("postgresql+psycopg://db", "redis://broker", "http://fake", "http://api", "http://flower")
STATE = UpState(
    os.getpid(), "api", "flower", "model", "db", "broker", (RunningProcess("worker-A tool", "worker-A", "tool", 7, 2),)
)


def by_name(plan: UpPlan) -> dict[str, ProcessSpec]:
    return {spec.name: spec for spec in fleet(plan, AT)}


def test_two_nodes_with_a_model_and_a_tool_process_each_and_the_rest_are_started() -> None:
    assert list(by_name(UpPlan())) == [
        "api",
        "worker-A model",
        "worker-A tool",
        "worker-B model",
        "worker-B tool",
        "maintenance",
        "beat",
        "flower",
    ]


def test_model_steps_run_on_threads_and_tool_steps_in_processes_each_on_its_queue() -> None:
    specs = by_name(UpPlan(model_slots=7, tool_slots=3))
    model, tool = " ".join(specs["worker-B model"].argv), " ".join(specs["worker-B tool"].argv)

    assert "worker -P threads -c 7 -Q model -n model@worker-B" in model
    assert "worker -P prefork -c 3 -Q tool -n tool@worker-B" in tool
    assert "worker -P threads -c 2 -Q maintenance" in " ".join(specs["maintenance"].argv)


def test_the_queues_that_tools_name_are_served_by_the_tool_processes() -> None:
    specs = by_name(UpPlan(tool_queues=("reports", "tool")))

    assert "-P prefork -c 2 -Q reports,tool" in " ".join(specs["worker-A tool"].argv)
    assert "-Q model" in " ".join(specs["worker-A model"].argv)


def test_every_process_is_told_who_it_is_and_where_everything_is() -> None:
    specs = by_name(UpPlan(anthropic_api_key="sk-key"))
    env = specs["worker-B tool"].env

    assert env["NODE_NAME"] == "worker-B"
    assert all(spec.env["DATABASE_URL"] == AT.database and spec.env["REDIS_URL"] == AT.redis for spec in specs.values())
    assert env["ANTHROPIC_API_KEY"] == "sk-key"
    assert not any("sk-key" in word for spec in specs.values() for word in spec.argv)


def test_flower_listens_on_loopback_whatever_the_api_does() -> None:
    specs = by_name(UpPlan(host="0.0.0.0", port=9000, flower_port=9001))

    assert {"--address=127.0.0.1", "--port=9001", "--read_only"} <= set(specs["flower"].argv)
    assert "0.0.0.0:9000" in specs["api"].argv
    assert UpPlan(host="0.0.0.0").reachable_host == "127.0.0.1"


@pytest.mark.parametrize(
    ("key", "base_url", "needs_fake"), [("", "", True), ("k", "", False), ("", "http://mine", False)]
)
def test_the_local_model_server_stands_in_when_no_other_is_named(key: str, base_url: str, needs_fake: bool) -> None:
    assert UpPlan(anthropic_api_key=key, anthropic_base_url=base_url).needs_fake_model is needs_fake
    assert fake_model_spec(UpPlan(fake_anthropic_port=9002), AT).argv[-1] == "9002"


def test_a_base_url_that_is_not_set_is_left_to_the_sdk() -> None:
    specs = fleet(UpPlan(anthropic_api_key="k"), replace(AT, anthropic=""))
    assert all("ANTHROPIC_BASE_URL" not in spec.env for spec in specs)


def free_plan(state_dir: Path) -> UpPlan:
    return UpPlan(state_dir=state_dir, port=free_port(), flower_port=free_port(), fake_anthropic_port=free_port())


@pytest.mark.parametrize("setting", ["PORT", "FLOWER_PORT", "FAKE_ANTHROPIC_PORT", "POSTGRES_PORT", "REDIS_PORT"])
def test_a_port_in_use_is_named_with_its_setting(setting: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        plan = replace(free_plan(tmp_path), **{setting.lower(): port})
        sentence = busy_port(plan)

    assert sentence is not None
    assert f"port {port} on 127.0.0.1 is in use" in sentence
    assert sentence.endswith(f"set {setting} to another")
    assert busy_port(plan) is None


def test_up_with_a_port_in_use_starts_nothing(tmp_path: Path) -> None:
    log = io.BytesIO()
    with socket.create_server(("127.0.0.1", 0)) as server:
        plan = replace(free_plan(tmp_path), port=server.getsockname()[1])
        assert up(plan, log) == 1

    assert "is in use" in log.getvalue().decode()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_second_up_over_the_same_folder_names_the_first_and_touches_nothing(tmp_path: Path) -> None:
    log = io.BytesIO()
    with owned(tmp_path):
        write_up_state(tmp_path, STATE)
        assert up(free_plan(tmp_path), log) == 1
        assert read_up_state(tmp_path) == STATE

    assert f"another `up` (pid {os.getpid()}) already runs over {tmp_path}" in log.getvalue().decode()


def test_a_failed_migration_is_said_and_everything_is_stopped_again(tmp_path: Path) -> None:
    log = io.BytesIO()
    plan = replace(free_plan(tmp_path), database_url="no-such-scheme://x", redis_url="redis://127.0.0.1:1/0")

    assert up(plan, log) == 1

    assert "the database schema could not be brought up to date" in log.getvalue().decode()
    stopping, stopped = log.getvalue().decode().splitlines()[-2:]
    assert stopping.startswith("stopping; what is under way gets 20 s")
    assert stopped == "stopped"


def test_the_lock_goes_with_its_process_even_by_kill(tmp_path: Path) -> None:
    script = (
        "import sys, signal; from pathlib import Path; from app.cli.up.state_dir import owned\n"
        "with owned(Path(sys.argv[1])): print('mine', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        with pytest.raises(StateDirTaken, match=str(owner.pid)), owned(tmp_path):
            pass
        owner.kill()

    with owned(tmp_path):
        pass


def test_what_runs_is_readable_while_it_runs_and_by_its_owner_only(tmp_path: Path) -> None:
    assert read_up_state(tmp_path) is None
    with owned(tmp_path):
        assert read_up_state(tmp_path) is None
        write_up_state(tmp_path, STATE)
        assert read_up_state(tmp_path) == STATE
        assert stat.S_IMODE((tmp_path / "up.json").stat().st_mode) == 0o600
        left_behind = (tmp_path / "up.json").read_text()
    assert json.loads(left_behind)["processes"][0]["name"] == "worker-A tool"
    (tmp_path / "up.json").write_text(left_behind)  # as after a kill -9
    assert read_up_state(tmp_path) is None


def test_only_nodes_can_be_held(tmp_path: Path) -> None:
    (tmp_path / "hold-").touch()
    assert not is_held(tmp_path, "")
