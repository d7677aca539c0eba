"""A strict local Messages API over HTTP, for tests, load and the demo without a key.

It refuses what Anthropic refuses, plays scripted turns, keeps a log of what was asked, and else answers by a few
keywords. The parts are in `app/llm/fake`; nothing here is imported by a worker.
"""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from app.llm.fake.fake_client import FakeClient
from app.llm.fake.request_log import LoggedRequest

__all__ = ["FakeClient", "FakeServer", "LoggedRequest", "serve"]

# How long a closing server may take to notice.
_POLL_S = 0.05


class FakeServer:
    """The server in threads of its own, for the length of a `with`.

    Args:
        host: address to listen on.
        port: 0 takes a free one.
        latency_s: seconds that an answer takes where its script does not say.
        api_key: the only key that is accepted; None accepts any.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, *, latency_s: float = 0.0, api_key: str | None = None
    ) -> None:
        # Imports anthropic (over a second): only a process that really serves pays for it.
        from app.llm.fake.handler import FakeHttpServer
        from app.llm.fake.state import FakeState

        self._state = FakeState(latency_s=latency_s, api_key=api_key)
        self._http = FakeHttpServer((host, port), self._state)
        bound_host, bound_port = self._http.server_address[:2]
        self.url = f"http://{bound_host!s}:{bound_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL_S,), name="fake-api", daemon=True)

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and cut whoever still waits for an answer."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.close_connections()

    def script(self, key: str, turns: Sequence[dict[str, Any]]) -> None:
        """Append turns to the script that a conversation plays by naming `[script:key]`; see `app.llm.fake.turn.Turn`.

        Raises:
            ValueError: a turn is not one; nothing was appended.
        """
        self._state.script(key, turns)

    def requests(self, key: str | None = None) -> list[LoggedRequest]:
        """What was asked, in order of arrival; of one key (empty: without a script), or all."""
        return self._state.requests(key)

    def reset(self) -> None:
        """Forget scripts, log and cache."""
        self._state.reset()


def serve(
    host: str,
    port: int,
    latency_s: float = 0.0,
    *,
    api_key: str | None = None,
    on_ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until `stop` is set, or the waiting thread is interrupted.

    Args:
        host: address to listen on.
        port: 0 takes a free one.
        latency_s: seconds that an answer takes.
        api_key: the only key that is accepted; None accepts any.
        on_ready: called with the base URL once the server answers.
        stop: ends the service.

    Raises:
        OSError: the port is taken.
    """
    with FakeServer(host, port, latency_s=latency_s, api_key=api_key) as server:
        if on_ready is not None:
            on_ready(server.url)
        (stop or threading.Event()).wait()
