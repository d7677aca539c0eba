"""Any Python value as JSON text, whatever it is.

Rules:
1. Stable forms: dates in ISO 8601; Decimal, UUID, Path and the like by `str`; an enum as its value; dataclasses and
   pydantic models as objects; sets sorted; bytes as UTF-8 text, else `base64:...`; NaN and infinities by name; keys as
   text. Anything else by its own `str`, or by a note that it has none.
2. NUL and lone surrogates become U+FFFD, in keys too.
3. Nothing a value does makes this raise an Exception, and it never writes much more than it is asked for.
"""

import base64
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, time
from enum import Enum
from itertools import islice
from typing import Any

from pydantic import BaseModel

from app.domain.text import clean, dumps

_MAX_DEPTH = 100
_KEY_CHARS = 200
_CUT = "\n[the rest was cut after {} characters]"


class Pairs(list[tuple[Any, Any]]):
    """The items of an object; a list, because two keys may have the same text."""


class Members(list[Any]):
    """The members of a set, in no order yet."""


class _Full(Exception):
    """More than was asked for has been seen."""


def unfold(value: Any, limit: int) -> Any:
    """One layer of the value in JSON's terms: a scalar, a list, `Members` or `Pairs`, of at most `limit` items."""
    try:
        return _unfold(value, limit)
    except Exception:
        return _no_form(value)


def json_text(value: Any, max_chars: int) -> str:
    """Compact JSON text of the value, cut after `max_chars` characters with a marker."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in _Writer(max_chars).pieces(value):
            pieces.append(piece)
            length += len(piece)
            if length > max_chars:
                raise _Full
    except _Full:
        return "".join(pieces)[:max_chars] + _CUT.format(max_chars)
    except RecursionError:
        return _no_form(value)
    return "".join(pieces)


class _Writer:
    """Writes in pieces, so that a huge value is never copied whole."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        # A value takes at least one character, so more values than characters cannot fit. Counted here and not by the
        # text alone: parts that are shared many times over grow without end before they are written.
        self._values_left = max_chars + 1
        self._open: set[int] = set()

    def pieces(self, value: Any) -> Iterator[str]:
        self._values_left -= 1
        if self._values_left < 0:
            raise _Full
        layer = unfold(value, self._max_chars + 1)
        if not isinstance(layer, list):
            yield self._scalar(layer)
        elif id(value) in self._open or len(self._open) >= _MAX_DEPTH:
            yield dumps("[not shown: contains itself, or is nested too deeply]")
        else:
            self._open.add(id(value))
            yield from self._object(layer) if isinstance(layer, Pairs) else self._array(layer)
            self._open.discard(id(value))

    def _object(self, pairs: Pairs) -> Iterator[str]:
        for n, (key, value) in enumerate(pairs):
            yield ("," if n else "{") + self._key(key) + ":"
            yield from self.pieces(value)
        yield "}" if pairs else "{}"

    def _array(self, values: list[Any]) -> Iterator[str]:
        written: Iterable[Iterable[str]] = (self.pieces(value) for value in values)
        if isinstance(values, Members):
            written = sorted([["".join(pieces)] for pieces in written])
        for n, pieces in enumerate(written):
            yield "," if n else "["
            yield from pieces
        yield "]" if values else "[]"

    def _key(self, key: Any) -> str:
        layer = unfold(key, self._max_chars + 1)
        if isinstance(layer, list):
            layer = json_text(key, _KEY_CHARS)
        return self._scalar(layer if isinstance(layer, str) else dumps(layer))

    def _scalar(self, scalar: Any) -> str:
        return dumps(clean(scalar[: self._max_chars + 1]) if isinstance(scalar, str) else scalar)


def _unfold(value: Any, limit: int) -> Any:
    if isinstance(value, Enum):
        return _unfold(value.value, limit)
    if value is None or isinstance(value, (bool, str, int, float)):
        return _scalar(value)
    if isinstance(value, BaseModel):
        return _unfold(value.model_dump(), limit)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Pairs((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        return Pairs((key, item) for key, item in islice(value.items(), limit))
    if isinstance(value, Set):
        return Members(islice(value, limit))
    if isinstance(value, (list, tuple)):
        return list(islice(value, limit))
    return _leaf(value)


def _scalar(value: bool | str | int | float | None) -> Any:
    """Subclasses are read as what they are underneath: their own methods have no say."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return float.__float__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        # Python refuses to spell integers of more than some 4300 digits in decimal; in hex it never does.
        return int.__int__(value) if value.bit_length() <= 14_000 else hex(value)
    return value


def _leaf(value: Any) -> str:
    if isinstance(value, (date, time)):
        return str(value.isoformat())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value))
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return _no_form(value)
    return str.__str__(str(value))


def _bytes(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")


def _no_form(value: Any) -> str:
    return f"[a value of type {type(value).__name__} that could not be written as text]"
