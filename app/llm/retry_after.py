"""How long a server asks us to wait, from its response headers."""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

# Past this a header says nothing usable: no wait of a year was ever meant, and such numbers overflow dates later on.
MAX_S = 366 * 86_400.0


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds to wait; None when the headers say nothing usable (garbage, negative, in the past, over a year).

    Args:
        headers: by lower-case name.
        now_s: Unix time, in seconds, against which an HTTP date is read.
    Source: RFC 9110 section 10.2.3; `retry-after-ms` is Anthropic's, more exact, and comes first.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _usable(milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None:
        seconds = _until(value, now_s)
    return _usable(seconds)


def _usable(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 <= seconds <= MAX_S else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(value: str | None, now_s: float) -> float | None:
    try:
        date = parsedate_to_datetime(value or "")
        # A date without a zone is GMT by the RFC; left naive it would be read in this machine's zone.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_s
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
