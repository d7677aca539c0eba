"""Anthropic's SDK behind the model protocol. Always streamed; an answer counts only once `message_stop` was seen.

Rules: anthropic is imported when the first call is made, never with this module: it costs over a second and 80 MB. The
SDK never retries: it would sleep in a worker's slot, unseen, and even on spend limits. Nothing is read from the
environment but what the SDK reads by itself (proxies, ANTHROPIC_CUSTOM_HEADERS).
"""

import threading
import time
from typing import TYPE_CHECKING, Any

from app.domain.errors import CallCut, ConfigError, LlmError
from app.domain.text import dumps, shorten
from app.domain.usage import Usage
from app.llm.client import Cutoff, ModelRequest, ModelResponse
from app.llm.cuttable import cuttable, make_cuttable
from app.llm.refusal import refusal
from app.llm.request_body import request_body

if TYPE_CHECKING:
    import anthropic

BASE_URL = "https://api.anthropic.com"


class AnthropicClient:
    """One per process, for all its threads; make it, or at least use it first, after any fork.

    Args:
        api_key: sent as a bearer token.
        base_url: of the Messages API, a gateway, or the fake server.
        max_connections: at least as many as threads that call at once; more calls wait, then fail as `timeout_error`.
        read_timeout_s: the longest silence of a stream; a pinging server resets it, so it is no total limit.
        connect_timeout_s: of the TCP connect and of the TLS handshake, each.

    Raises:
        ConfigError: the key or the URL can not be sent.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = BASE_URL,
        *,
        max_connections: int = 1000,
        read_timeout_s: float = 90.0,
        connect_timeout_s: float = 5.0,
    ) -> None:
        # The SDK finds both out at the first call only, and then takes a bad key for a broken connection.
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ConfigError("the API key is empty or holds characters that no key has (a line end?)")
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"the base URL must begin with http:// or https://: {base_url!r}")
        self._api_key = api_key
        self._base_url = base_url
        self._max_connections = max_connections
        self._read_timeout_s = read_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        self._made: anthropic.Anthropic | None = None

    def complete(self, request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        """One request. Raises `LlmError` or `CallCut`; see `ModelClient`."""
        sdk = self._sdk()
        if cutoff.reason is not None:
            raise CallCut(cutoff.reason)
        answer = _Answer()
        started = time.perf_counter()
        failure: Exception | None = None
        try:
            with cuttable(cutoff), sdk.messages.stream(**request_body(request)) as stream:
                answer.read(stream)
        except Exception as error:
            failure = error
        if answer.is_whole:
            # Paid for and complete: neither a cut nor a break after `message_stop` takes it away again.
            return answer.response(int((time.perf_counter() - started) * 1000))
        if cutoff.reason is not None:
            raise CallCut(cutoff.reason, answer.usage) from failure
        raise _explain(failure, answer) from failure

    def close(self) -> None:
        """Close the pooled connections. A later call opens new ones."""
        with self._lock:
            sdk, self._made = self._made, None
        if sdk is not None:
            sdk.close()

    def _sdk(self) -> "anthropic.Anthropic":
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _make(self) -> "anthropic.Anthropic":
        import anthropic
        import httpx2

        http_client = anthropic.DefaultHttpxClient(
            limits=httpx2.Limits(
                max_connections=self._max_connections,
                max_keepalive_connections=self._max_connections,
                keepalive_expiry=30.0,
            ),
            timeout=httpx2.Timeout(self._read_timeout_s, connect=self._connect_timeout_s, pool=self._connect_timeout_s),
        )
        make_cuttable(http_client)
        return anthropic.Anthropic(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, http_client=http_client
        )


class _Answer:
    """What a stream has said so far."""

    def __init__(self) -> None:
        self.opened = False
        self.request_id: str | None = None
        self._message: Any = None  # the SDK's snapshot, which grows with every event
        self._stopped = False

    def read(self, stream: Any) -> None:
        self.opened = True
        self.request_id = stream.request_id
        for event in stream:
            if event.type == "message_start":
                self._message = stream.current_message_snapshot
            elif event.type == "message_stop":
                self._stopped = True

    @property
    def is_whole(self) -> bool:
        # A stream that ends early but cleanly raises nothing in the SDK; its message has no stop reason.
        return self._stopped and self._message is not None and self._message.stop_reason is not None

    @property
    def usage(self) -> Usage:
        return usage_of(self._message.usage) if self._message is not None else Usage()

    def response(self, latency_ms: int) -> ModelResponse:
        # Unset fields stay out and unknown ones stay in; `model_dump` would add nulls that the API may reject.
        # No warnings: the SDK has one for every kind of block that is newer than itself.
        message = self._message.to_dict(mode="json", warnings=False)
        return ModelResponse(
            content=dumps(message["content"]),
            stop_reason=message["stop_reason"],
            model=message["model"],
            usage=self.usage,
            message_id=message.get("id"),
            request_id=self.request_id,
            latency_ms=latency_ms,
        )


def usage_of(usage: Any) -> Usage:
    """The SDK's usage in our parts. A stream's counts are running totals: the last one seen holds."""
    split = getattr(usage, "cache_creation", None)
    writes = getattr(usage, "cache_creation_input_tokens", None) or 0
    return Usage(
        input_tokens=getattr(usage, "input_tokens", None) or 0,
        output_tokens=getattr(usage, "output_tokens", None) or 0,
        cache_write_tokens=writes,
        cache_read_tokens=getattr(usage, "cache_read_input_tokens", None) or 0,
        cache_write_1h_tokens=min(getattr(split, "ephemeral_1h_input_tokens", None) or 0, writes),
    )


# What the SDK raises on a stream that is no Messages stream: bad JSON, events out of order, blocks never begun.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)


def _explain(failure: Exception | None, answer: _Answer) -> LlmError:
    import anthropic
    import httpx2

    if failure is None:
        return _broken("stream_cut", "it ended without message_stop", answer)
    if isinstance(failure, anthropic.APIStatusError):
        return _refused(failure, answer.usage)
    if isinstance(failure, (anthropic.APITimeoutError, httpx2.TimeoutException)):
        return _broken("timeout_error", repr(failure.__cause__ or failure), answer)
    if isinstance(failure, (anthropic.APIConnectionError, httpx2.HTTPError)):
        code = "stream_cut" if answer.opened else "connection_error"
        return _broken(code, repr(failure.__cause__ or failure), answer)
    if answer.opened and isinstance(failure, _UNREADABLE):
        return _broken("stream_cut", f"it cannot be read: {failure!r}", answer)
    if isinstance(failure, (TypeError, ValueError)):
        return LlmError(f"the request cannot be sent: {failure}", transient=False, code="invalid_request")
    raise failure


def _broken(code: str, reason: str, answer: _Answer) -> LlmError:
    return LlmError(
        f"{code}: {shorten(reason, 500)}", transient=True, code=code, request_id=answer.request_id, usage=answer.usage
    )


def _refused(failure: "anthropic.APIStatusError", usage: Usage) -> LlmError:
    error_type: object = failure.type
    return refusal(
        failure.status_code,
        failure.response.headers,
        failure.api_message or failure.message,
        error_type=error_type if isinstance(error_type, str) else None,
        error_code=failure.error_code,
        now_s=time.time(),
        usage=usage,
    )


def preload() -> None:
    """Import the SDK now, so that the first call need not."""
    import anthropic  # noqa: F401
