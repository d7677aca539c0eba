"""Log lines: one short line for people (`worker-A run=6f1c0a52 seq=1 MODEL …`), or ECS JSON for machines.

Prompts, results and keys are never logged; what could be a key is masked all the same.
"""

import logging
import re
import sys

import ecs_logging

_KEY = re.compile(r"sk-ant-[A-Za-z0-9_-]{4,}|(?<=[Bb]earer )[A-Za-z0-9._-]{8,}")
# Libraries that speak at INFO about every message or request.
_CHATTY = (
    "celery",
    "kombu",
    "amqp",
    "multiprocessing",
    "httpx2",
    "httpcore2",
    "anthropic",
    "alembic",
    "urllib3",
    "werkzeug",
)


class _Masking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        masked = _KEY.sub("[key]", message)
        if masked != message:
            record.msg, record.args = masked, None
        return True


class _Console(logging.Formatter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self._name} {record.getMessage()}"
        if record.levelno >= logging.WARNING:
            line = f"{self._name} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def configure_logging(name: str, *, style: str, level: str) -> None:
    """Send all log records of this process to standard error.

    Args:
        name: the node, in front of each console line and as `service.name` in JSON.
        style: `console` or `json`.
        level: least level of our own records; chatty libraries start at WARNING.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Masking())
    handler.setFormatter(_formatter(name, style))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for library in _CHATTY:
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def _formatter(name: str, style: str) -> logging.Formatter:
    if style == "json":
        return ecs_logging.StdlibFormatter(extra={"service.name": name}, exclude_fields=["log.original"])
    return _Console(name)
