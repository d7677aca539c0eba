"""Reading a JSON body: 415 another media type, 413 too large, 400 not JSON."""

import json
from typing import Any

from flask import Request

from app.api.problems import BadRequest


class Number(float):
    """A JSON number with a fraction or an exponent, which remembers how it was written: money must not pass a float."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> "Number":
        """Parse it."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def read_json(request: Request) -> Any:
    """The parsed body. Of keys that come twice the last one counts; fractions are `Number`s.

    Raises:
        BadRequest: 400 or 415.
        RequestEntityTooLarge: the body is longer than the app's MAX_CONTENT_LENGTH (or just as long, and chunked).
    """
    if not request.is_json:
        said = request.mimetype or "no media type"
        raise BadRequest(415, f"send the body as application/json, not as {said}")
    data = _read_all(request)
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, parse_float=Number, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise BadRequest(400, f"the body is not UTF-8: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise BadRequest(400, "the body is nested too deeply") from error
    except ValueError as error:  # an integer with thousands of digits
        raise BadRequest(400, "the body has a number that is too long, or is no JSON number") from error


def _read_all(request: Request) -> bytes:
    # Not get_data(): Werkzeug 3.1 cuts a chunked body at the limit there and says nothing. Reading on past it raises.
    return b"".join(iter(lambda: request.stream.read(65_536), b""))


def _refuse(name: str) -> Any:
    raise ValueError(name)
