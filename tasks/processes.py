"""What happens when a worker process starts, forks and stops.

Rules:
1. A prefork parent opens no pooled connection: a socket that two processes inherit answers the wrong one.
2. Children die with their parent: a node that is killed must not leave tools running behind.
"""

import functools
import logging
import os
import signal
import sys
import threading
from dataclasses import replace
from typing import Any

from billiard.util import get_logger as pool_logger
from celery.signals import celeryd_init, setup_logging, task_prerun, worker_init, worker_process_init, worker_ready

from app.bootstrap import build_runtime, build_store
from app.config import settings
from app.domain.errors import ConfigError
from app.engine.runtime import Runtime
from app.llm.anthropic_client import preload
from app.observe.log import configure_logging
from app.store.open_steps import MODEL_QUEUE
from tasks.celery_app import app
from tasks.configuration import WORKER_TRANSPORT
from tasks.dispatch import CeleryDispatcher

log = logging.getLogger("durable.worker")

# Whoever imports this, before it forks: a child that asked for its parent might already get another's answer.
_PARENT = os.getpid()


@functools.cache
def _runtime_of(pid: int) -> Runtime:
    return build_runtime(settings(), CeleryDispatcher(app))


def runtime() -> Runtime:
    """This process's runtime, built on first use; a forked child builds its own."""
    return _runtime_of(os.getpid())


@functools.cache
def parent_runtime() -> Runtime:
    """The runtime of a prefork parent: without a pool, since the parent will fork again."""
    return replace(runtime(), store=build_store(settings(), pooled=False))


@setup_logging.connect
def _set_up_logging(**_: Any) -> None:
    configure_logging(settings().node_name, style=settings().log_format, level=settings().log_level)
    # A child's death: `child_lost` says in one line what a traceback of Celery's own code says in twenty.
    logging.getLogger("celery.worker.request").setLevel(logging.CRITICAL)
    pool_logger().propagate = True
    for name in ("celery.beat", "celery.worker.consumer.consumer"):
        logging.getLogger(name).addFilter(_first_line)


def _first_line(record: logging.LogRecord) -> bool:
    """Two loggers that add a stack to "the broker is away", once a second."""
    record.msg, record.args, record.exc_info = record.getMessage().partition("\n")[0], None, None
    return True


@celeryd_init.connect
def _be_a_worker(sender: str, conf: Any, **_: Any) -> None:
    conf.broker_transport_options = conf.broker_transport_options | WORKER_TRANSPORT | {"client_name": sender}


@worker_init.connect
def _build(**_: Any) -> None:
    # Here and not in the first task: two threads would build two, and a wrong setting must end the worker.
    try:
        parent_runtime()
    except ConfigError as error:
        sys.exit(f"{error}")


@worker_ready.connect
def _ready(sender: Any, **_: Any) -> None:
    queues = sorted(queue.name for queue in sender.task_consumer.queues)
    log.info("ready, consumes %s", ", ".join(queues))
    # Importing the SDK takes over a second: before the first call, not in it, and not in the event loop.
    if MODEL_QUEUE in queues:
        threading.Thread(target=preload, name="preload", daemon=True).start()


@worker_process_init.connect
def _child_init(**_: Any) -> None:
    # Celery asks Linux to kill a child with its parent. It may have died before; elsewhere, looking is the only way.
    threading.Thread(target=_watch_parent, name="parent-watch", daemon=True).start()
    runtime()


@task_prerun.connect
def _end_as_told(**_: Any) -> None:
    # The pool ends a child by SIGTERM, as SystemExit, which a tool's own failure may be, too. Not written down as one:
    # a call that was cut is in doubt, or runs again. Set here because billiard sets its own after every other signal.
    if os.getpid() != _PARENT and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _watch_parent() -> None:
    pause = threading.Event()
    while os.getppid() == _PARENT:
        pause.wait(1.0)
    os.kill(os.getpid(), signal.SIGKILL)
