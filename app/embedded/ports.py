"""TCP ports on this machine: is one free, pick one, and keep the one a server had last time.

A remembered port lets clients reconnect after a restart; a fixed port is never replaced by another.
"""

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `host:port` now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the servers themselves do: connections of a former server that linger in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str = LOOPBACK) -> int:
    """A port nobody listens on. Another process may take it before it is used: callers retry."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def settled_port(memory: Path, fixed: int = 0) -> int:
    """The loopback port to listen on: `fixed`, else the one in the file `memory` while free, else a new one."""
    if fixed:
        return fixed
    try:
        last = int(memory.read_text())
    except (OSError, ValueError):
        last = 0
    return last if last and is_free(last) else free_port()
