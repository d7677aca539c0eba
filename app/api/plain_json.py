"""JSON from outside, made safe to keep: valid text, finite numbers, bounded depth."""

import math
from typing import Any

from app.domain.text import clean


class NotPlain(Exception):
    """A value cannot be kept; `at` is the JSON pointer to it from the value that was given."""

    def __init__(self, at: str, detail: str, code: str) -> None:
        super().__init__(detail)
        self.at = at
        self.detail = detail
        self.code = code


def plain(value: Any, max_depth: int, at: str = "") -> Any:
    """The value with NUL and lone surrogates replaced by U+FFFD, in keys too.

    Args:
        max_depth: levels of objects and arrays that are allowed.
        at: JSON pointer to the value.

    Raises:
        NotPlain: nested too deeply, or a number that is too large to be one.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotPlain(at, "a number that is too large", "finite_number")
        return float(value)
    if not isinstance(value, dict | list):
        return value
    if max_depth == 0:
        raise NotPlain(at, "nested too deeply", "too_deep")
    if isinstance(value, list):
        return [plain(item, max_depth - 1, f"{at}/{index}") for index, item in enumerate(value)]
    return {clean(key): plain(item, max_depth - 1, f"{at}/{pointer_part(key)}") for key, item in value.items()}


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return clean(name).replace("~", "~0").replace("/", "~1")
