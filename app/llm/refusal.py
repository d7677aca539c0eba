"""Whether a refused request may succeed later. Pure: branches on status, type and error code, never on the wording.

Source: Anthropic API errors page, and the SDK's own retry rules.
"""

from collections.abc import Mapping

from app.domain.errors import LlmError
from app.domain.text import shorten
from app.domain.usage import Usage
from app.llm.retry_after import retry_after_s

# These come as 429 without a retry-after and will not clear for days.
_SPEND_LIMITS = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})

# In an error event of a stream the status is 200, so the type alone has to say that repeating is pointless.
_TERMINAL_TYPES = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
    }
)


def is_transient(status: int, error_type: str | None, error_code: str | None, should_retry: str | None) -> bool:
    """Whether the same request may succeed later.

    Args:
        status: HTTP status; below 400 it is that of a stream which then sent an error event.
        error_type: `error.type` of the body.
        error_code: `error.details.error_code` of the body.
        should_retry: the header `x-should-retry`; overrides the status, but not a spend limit.
    """
    if error_code in _SPEND_LIMITS:
        return False
    if should_retry in ("true", "false"):
        return should_retry == "true"
    if status < 400:
        return error_type not in _TERMINAL_TYPES
    return status in (408, 409, 429) or status >= 500


def code_of(status: int, error_type: str | None, error_code: str | None) -> str:
    """The run's error code: the body's error type; a spend limit by its own name; else the status."""
    if error_code is not None and error_code in _SPEND_LIMITS:
        return error_code
    if error_type:
        return error_type
    return f"http_{status}" if status >= 400 else "stream_cut"


def refusal(
    status: int,
    headers: Mapping[str, str],
    message: str,
    *,
    error_type: str | None,
    error_code: str | None,
    now_s: float,
    usage: Usage,
) -> LlmError:
    """The error for an answer that is not a message.

    Args:
        status: as in `is_transient`.
        headers: of the response, by lower-case name.
        message: the body's message, or the body (which a proxy may have filled with a page of HTML).
        error_type: as in `is_transient`.
        error_code: as in `is_transient`.
        now_s: Unix time, in seconds.
        usage: what the stream had already billed.
    """
    code = code_of(status, error_type, error_code)
    return LlmError(
        f"{code} (HTTP {status}): {shorten(message, 500)}",
        transient=is_transient(status, error_type, error_code, headers.get("x-should-retry")),
        code=code,
        status=status,
        retry_after_s=retry_after_s(headers, now_s),
        request_id=headers.get("request-id"),
        usage=usage,
    )
