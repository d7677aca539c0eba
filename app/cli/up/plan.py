"""What `up` is asked to start: plain values, so that nothing here reads the environment."""

from dataclasses import dataclass
from pathlib import Path

from app.embedded.binaries import Mode
from app.embedded.ports import LOOPBACK, is_free


@dataclass(frozen=True, slots=True, kw_only=True)
class UpPlan:
    """The wishes of one `up`. Everything not named here reaches the children through the environment unchanged.

    Attributes:
        state_dir: folder for data, lock and logs; made if missing.
        host: address the API listens on. Flower and the fake server stay on loopback: they ask for no password.
        port: of the API.
        flower_port: of Flower.
        fake_anthropic_port: of the local Messages API server.
        postgres_port: of the embedded PostgreSQL; 0 takes the one of last time, else a free one.
        redis_port: of the embedded Redis-compatible server; 0 as above.
        database_url: SQLAlchemy URL of a database that already runs; empty starts one.
        redis_url: URL of a broker that already runs; empty starts one.
        anthropic_api_key: empty, and no base URL, means the local Messages API server.
        anthropic_base_url: where the Messages API is; empty means the SDK's default.
        embedded: which server programs may be used.
        nodes: one model and one tool process are started for each.
        tool_queues: served by the tool process of each node.
        model_slots: model calls at a time in one node.
        tool_slots: tool processes of one node.
        api_threads: requests and streams at a time.
        stop_grace_s: seconds that a process may take to end before it is killed.
    """

    state_dir: Path = Path(".durable")
    host: str = LOOPBACK
    port: int = 8080
    flower_port: int = 5555
    fake_anthropic_port: int = 8081
    postgres_port: int = 0
    redis_port: int = 0
    database_url: str = ""
    redis_url: str = ""
    anthropic_api_key: str = ""
    anthropic_base_url: str = ""
    embedded: Mode = "auto"
    nodes: tuple[str, ...] = ("worker-A", "worker-B")
    tool_queues: tuple[str, ...] = ("tool",)
    model_slots: int = 20
    tool_slots: int = 2
    api_threads: int = 32
    stop_grace_s: float = 20.0

    @property
    def needs_fake_model(self) -> bool:
        """Whether no real Messages API was named."""
        return not self.anthropic_api_key and not self.anthropic_base_url

    @property
    def reachable_host(self) -> str:
        """The address under which this machine reaches the API."""
        return LOOPBACK if self.host in ("0.0.0.0", "::", "") else self.host


def busy_port(plan: UpPlan) -> str | None:
    """One sentence about the first wanted port that cannot be had, or None."""
    wanted = [("PORT", plan.host, plan.port), ("FLOWER_PORT", LOOPBACK, plan.flower_port)]
    if plan.needs_fake_model:
        wanted.append(("FAKE_ANTHROPIC_PORT", LOOPBACK, plan.fake_anthropic_port))
    if not plan.database_url and plan.postgres_port:
        wanted.append(("POSTGRES_PORT", LOOPBACK, plan.postgres_port))
    if not plan.redis_url and plan.redis_port:
        wanted.append(("REDIS_PORT", LOOPBACK, plan.redis_port))
    for setting, host, port in wanted:
        if not is_free(port, host):
            return f"port {port} on {host} is in use (or not allowed); nothing was started: set {setting} to another"
    return None
