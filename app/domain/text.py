"""JSON as text, and text that every store and every wire can carry.

What goes back to the model is kept as JSON text, never as jsonb, which reorders keys, respells numbers and refuses NUL.
"""

import hashlib
import json
from typing import Any

Json = Any  # what json.loads returns; mypy has no better word for it


def dumps(value: Json) -> str:
    """Compact JSON text; same value and key order, same text.

    Lone surrogates cannot be stored as UTF-8: a value that holds one is written in ASCII with escapes instead.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if is_valid(text) else json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def is_valid(text: str) -> bool:
    """Whether the text is encodable as UTF-8 (no lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sha256(text: str) -> str:
    """Hex digest of the UTF-8 text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def clean(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD; everything else as it was."""
    text = text.replace("\x00", "\ufffd")
    if is_valid(text):
        return text
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def shorten(text: str, max_chars: int) -> str:
    """At most `max_chars` characters of the text, with a marker that says how much was cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[{len(text) - max_chars} of {len(text)} characters cut]"
