import ast
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import ContentDisallowed

import tasks.celery_app
from tasks.celery_app import app as live
from tasks.configuration import WORKER_TRANSPORT
from tasks.hub_tick import HubTick
from tasks.step import step
from tests.support.project_files import ROOT

EXPECTED: dict[str, Any] = {
    "result_backend": None,
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "task_acks_late": False,
    "task_reject_on_worker_lost": False,
    "task_acks_on_failure": True,
    "task_acks_on_timeout": True,
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_pool_limit": 20,
    "broker_pool_acquire_timeout": 1.0,
    "task_publish_retry": False,
    "task_serializer": "json",
    "accept_content": ["json"],
    "result_accept_content": ["json"],
    "task_default_queue": "model",
    "task_create_missing_queues": False,
    "task_routes": None,
    "task_time_limit": None,
    "task_soft_time_limit": None,
    "worker_send_task_events": True,
    "task_send_sent_event": True,
    "event_queue_ttl": 5,
    "event_queue_expires": 60,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_enable_remote_control": True,
    "worker_proc_alive_timeout": 30.0,
    "worker_lost_wait": 10.0,
    "worker_max_memory_per_child": 400_000,
    "worker_soft_shutdown_timeout": 0.0,
    "beat_scheduler": "celery.beat:Scheduler",
    "beat_enable_remote_control": False,
    "worker_detect_quorum_queues": True,
    "timezone": "UTC",
    "enable_utc": True,
}
TRANSPORT = {
    "visibility_timeout": 7200,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 2,
    "socket_connect_timeout": 1,
    "max_retries": 0,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": False,
    "max_connections": 50,
}
_CELERY_TIMERS = {"countdown", "eta", "autoretry_for", "retry_backoff", "apply_async", "delay"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_live_application_has_the_setting(name: str) -> None:
    assert live.conf[name] == EXPECTED[name]


def test_a_publisher_gives_up_on_a_dead_broker_soon_and_a_worker_later() -> None:
    options = live.conf.broker_transport_options
    assert TRANSPORT.items() <= options.items()
    assert options["client_name"].startswith("publisher@")
    assert WORKER_TRANSPORT["socket_timeout"] > options["socket_timeout"]
    # Above kombu's own wait for a message, which is a second.
    assert options["socket_timeout"] > 1


def test_the_queues_are_those_of_steps_and_of_maintenance() -> None:
    assert {queue.name for queue in live.conf.task_queues} == {"model", "tool", "maintenance"}


def test_each_tick_of_the_sweep_expires_before_the_next() -> None:
    for entry in live.conf.beat_schedule.values():
        assert entry["options"] == {"queue": "maintenance", "expires": entry["schedule"]}
    assert live.conf.beat_schedule["sweep"]["schedule"] == 1.0


def test_versions_are_those_whose_faults_are_guarded_against() -> None:
    assert version("celery").startswith("5.7.")
    assert version("kombu").startswith("5.7.")


def test_the_event_loop_is_woken_often() -> None:
    assert HubTick in live.steps["consumer"]


def test_the_parent_watches_over_steps() -> None:
    assert step.Request == "tasks.child_lost:StepRequest"
    assert tasks.celery_app.app.tasks["agent.step"].name == "agent.step"


def test_a_pickled_message_is_not_opened(app: Celery) -> None:
    with app.connection_for_write() as connection:
        app.send_task("agent.step", kwargs={"run_id": "x"}, queue="model", serializer="pickle", connection=connection)
        consumer = app.amqp.TaskConsumer(connection.default_channel, queues=[app.amqp.queues["model"]])
        consumer.on_message = lambda message: message.payload
        with consumer, pytest.raises(ContentDisallowed):
            connection.drain_events(timeout=5)


def test_no_timer_or_retry_of_celery_is_used_anywhere() -> None:
    used = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("app", "tasks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in _names(path) & _CELERY_TIMERS
    }
    assert used == set()


def _names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    return keywords | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
