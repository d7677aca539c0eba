"""Ports: taken or free, remembered or fixed."""

import socket
from pathlib import Path

from app.embedded.ports import free_port, is_free, settled_port


def test_a_port_is_taken_while_somebody_listens_and_free_afterwards() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_the_port_of_last_time_is_kept_while_free(tmp_path: Path) -> None:
    memory = tmp_path / "port"
    port = free_port()
    memory.write_text(str(port))

    assert settled_port(memory) == port
    with socket.create_server(("127.0.0.1", port)):
        assert settled_port(memory) != port
        assert settled_port(memory, fixed=port) == port


def test_an_unreadable_memory_means_any_free_port(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("not a number")
    assert is_free(settled_port(tmp_path / "port"))
    assert is_free(settled_port(tmp_path / "missing"))
