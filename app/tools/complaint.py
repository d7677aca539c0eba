"""What the model reads when its arguments do not fit: each wrong field, where it is and what was expected there.

Rules: bounded in length; the values themselves are not repeated, only their JSON kind.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from app.domain.text import clean, shorten

_FIELDS = 10
_PATH_CHARS = 100
_LINE_CHARS = 300
_NAMES_CHARS = 1000


def complaint(name: str, error: ValidationError, parameters: Sequence[str]) -> str:
    """The text for the model; a few lines."""
    wrong = error.errors(include_url=False, include_context=False)
    lines = [f"Invalid arguments for {name}; it did not run."]
    lines += [_line(field) for field in wrong[:_FIELDS]]
    if len(wrong) > _FIELDS:
        lines.append(f"- and {len(wrong) - _FIELDS} more")
    known = ", ".join(parameters)
    lines.append(f"Its arguments are: {shorten(known, _NAMES_CHARS)}." if known else "It takes no arguments.")
    return clean("\n".join(lines))


def json_kind(value: object) -> str:
    """What a value is called in JSON, with its article."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a number"),
        (str, "a string"),
        (list, "an array"),
        (dict, "an object"),
    )
    return next((word for kind, word in kinds if isinstance(value, kind)), "null")


def _line(field: Any) -> str:
    path = shorten(".".join(str(part) for part in field["loc"]) or "the arguments", _PATH_CHARS)
    if field["type"] == "missing":
        said = "required, but missing"
    elif field["type"] == "extra_forbidden":
        said = "not known here; leave it out"
    elif field["type"] == "json_invalid":
        said = "not valid JSON text (a broken \\u escape, or nested too deeply)"
    else:
        said = f"{shorten(field['msg'], _LINE_CHARS)} (got {json_kind(field['input'])})"
    return f"- {path}: {said}"
