"""Celery's configuration, every setting with its reason.

"Pn" below are measured faults of Celery 5.7 with Redis, listed in docs/celery.md.
"""

import socket
from typing import Any

from kombu.entity import Exchange, Queue

from app.config import Settings

SWEEP_S = 1.0
SWEEP_ORPHANS_S = 60.0
MAINTENANCE_QUEUE = "maintenance"

#: A worker's own, on top of `_transport`: nobody waits for its answer, and a busy one may be late to read.
WORKER_TRANSPORT = {"socket_timeout": 5, "socket_connect_timeout": 3}


def configuration(settings: Settings, queues: list[str]) -> dict[str, Any]:
    """The same in every process: API, workers, beat and Flower.

    Args:
        queues: the model and tool queues that messages may go to.
    """
    return _broker(settings.redis_url) | _messages(queues) | _delivery() | _workers() | _beat()


def _broker(url: str) -> dict[str, Any]:
    return {
        "broker_url": url,
        "broker_transport_options": _transport(),
        "broker_connection_retry_on_startup": True,
        # For ever: a broker that is away for an hour is no reason to give up (P22).
        "broker_connection_max_retries": None,
        "broker_pool_limit": 20,
        # A POST may wait this long for a connection and then as long as a socket: 3 s in all.
        "broker_pool_acquire_timeout": 1.0,
        # A publish is best effort and short; what it loses, the sweep rings for.
        "task_publish_retry": False,
    }


def _messages(queues: list[str]) -> dict[str, Any]:
    return {
        # Results live in Postgres.
        "result_backend": None,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        # JSON only: a pickled message is code (P43).
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # Typing errors in a queue's name fail loudly.
        "task_default_queue": "model",
        "task_queues": [Queue(name, Exchange("agent"), name) for name in [*queues, MAINTENANCE_QUEUE]],
        "task_create_missing_queues": False,
        # Flower shows nothing without events.
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        # A slow Flower cannot fill Redis.
        "event_queue_ttl": 5,
        "event_queue_expires": 60,
        "timezone": "UTC",
        "enable_utc": True,
    }


def _delivery() -> dict[str, Any]:
    return {
        # Early acknowledgement: the lease is the lock. Late acknowledgement repeats every running call when a
        # connection blips (P2), and makes 5.7.0 exit when Redis restarts (P1).
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        # No prefetch: a message held by a busy worker keeps its run waiting for minutes (P9).
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        # A lost broker connection is no reason to throw a paid call away.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }


def _workers() -> dict[str, Any]:
    return {
        # The log is set up by `processes`, in one form for all processes.
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # For `celery inspect`.
        "worker_enable_remote_control": True,
        # On SIGTERM a worker finishes what it has begun, for as long as whoever sent it allows: a soft shutdown would
        # cut steps, and fails on the threads pool (P16).
        "worker_soft_shutdown_timeout": 0.0,
        # Children that import slowly are killed and started in a loop at the default of 4 s (P19).
        "worker_proc_alive_timeout": 30.0,
        "worker_lost_wait": 10.0,
        # A child that leaks is replaced after its task; in kB.
        "worker_max_memory_per_child": 400_000,
        # Each message brings its tool's limit; threads know none.
        "task_time_limit": None,
        "task_soft_time_limit": None,
        "worker_detect_quorum_queues": True,
    }


def _beat() -> dict[str, Any]:
    return {
        "beat_schedule": _schedule(),
        # The default one keeps a file that can break; ours has nothing to remember (P31).
        "beat_scheduler": "celery.beat:Scheduler",
        # Nobody asks beat: whether sweeps happen is seen in the database.
        "beat_enable_remote_control": False,
    }


def _transport() -> dict[str, Any]:
    return {
        # Matters only for messages that a killed worker had reserved; longer than any step.
        "visibility_timeout": 7200,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        # Without these a black-holed Redis blocks a publish, and so a POST, for ever (P21).
        "socket_timeout": 2,
        "socket_connect_timeout": 1,
        # Kombu would try again for four seconds, whatever `retry` says. A worker's own loop connects again by itself.
        "max_retries": 0,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": False,
        "max_connections": 50,
        "client_name": f"publisher@{socket.gethostname()}",
    }


def _schedule() -> dict[str, Any]:
    # Each tick expires before the next: after an outage one sweep is enough (P29).
    return {
        "sweep": {
            "task": "agent.sweep",
            "schedule": SWEEP_S,
            "options": {"queue": MAINTENANCE_QUEUE, "expires": SWEEP_S},
        },
        "sweep_orphans": {
            "task": "agent.sweep_orphans",
            "schedule": SWEEP_ORPHANS_S,
            "options": {"queue": MAINTENANCE_QUEUE, "expires": SWEEP_ORPHANS_S},
        },
    }
