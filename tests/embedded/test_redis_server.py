"""The embedded Redis-compatible server: real servers, by both routes."""

import os
import signal
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.embedded.binaries import Mode
from app.embedded.errors import EmbeddedError
from app.embedded.ports import free_port
from app.embedded.redis_server import RedisServer


def test_messages_url_and_port_survive_a_restart(mode: Mode, state_dir: Path) -> None:
    with RedisServer(state_dir, mode) as first:
        url = first.url
        with redis.Redis.from_url(url) as client:
            client.lpush("queue", "bell")

    with RedisServer(state_dir, mode) as second:
        assert second.url == url
        with redis.Redis.from_url(url) as client:
            assert client.rpop("queue") == b"bell"


def test_it_can_be_killed_and_started_again_on_the_same_port(mode: Mode, state_dir: Path) -> None:
    with RedisServer(state_dir, mode) as server:
        url, pid = server.url, server.pid
        os.kill(pid, signal.SIGKILL)
        assert server.process is not None
        server.process.wait()

        assert server.start() == url
        assert server.pid != pid
        with redis.Redis.from_url(url) as client:
            assert client.ping()


def test_nothing_is_evicted_and_every_second_is_on_disk_and_a_password_is_needed(mode: Mode, state_dir: Path) -> None:
    with RedisServer(state_dir, mode) as server:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            wanted = {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec"}
            assert client.config_get(*wanted) == wanted
        with (
            redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()


def test_a_fixed_port_in_use_is_an_error_with_the_servers_own_words(mode: Mode, state_dir: Path) -> None:
    port = free_port()
    other = state_dir.parent / "other"
    other.mkdir()
    with (
        RedisServer(other, mode, port=port),
        pytest.raises(EmbeddedError, match=r"did not start: .*Address already in use"),
    ):
        RedisServer(state_dir, mode, port=port).start()
