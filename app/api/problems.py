"""Errors as RFC 9457 problems: one table from error class to status, and the handlers that use it.

A body never holds a stack, SQL or the text of an error that is not ours.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from app.domain.errors import AlreadyDecided, AmbiguousRunId, DatabaseAway, IllegalTransition, RunNotFound

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_AWAY = "The database does not answer. Look whether it was done, or try again in a moment."

#: Error class to status, and what the body says; None: the error's own words.
STATUS_OF: dict[type[Exception], tuple[int, str | None]] = {
    RunNotFound: (404, None),
    AmbiguousRunId: (409, None),
    IllegalTransition: (409, None),
    AlreadyDecided: (409, None),
    DatabaseAway: (503, _AWAY),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request.

    Attributes:
        at: where: a JSON pointer into the body (RFC 6901; empty for all of it), or the name of a query parameter.
        detail: for people.
        code: for programs.
        kind: `pointer` or `parameter`.
    """

    at: str
    detail: str
    code: str
    kind: str = "pointer"

    def to_json(self) -> dict[str, str]:
        """As shown in `errors`."""
        return {self.kind: self.at, "detail": self.detail, "code": self.code}


class BadRequest(Exception):
    """The request cannot be taken: 400 unparsable, 413 too large, 415 media type, 422 not what the schema says."""

    def __init__(self, status: int, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.faults = tuple(faults)


def problem(status: int, detail: str, **extensions: Any) -> Response:
    """A problem response; `extensions` are members of its object."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.path,
        **extensions,
    }
    response = Response(json.dumps(body), status=status, content_type=MEDIA_TYPE)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def install(app: Flask) -> None:
    """Answer every error of this app with a problem."""
    app.register_error_handler(BadRequest, _bad_request)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _any)


def _bad_request(error: BadRequest) -> Response:
    extensions = {"errors": [fault.to_json() for fault in error.faults]} if error.faults else {}
    return problem(error.status, error.detail, **extensions)


def _http(error: HTTPException) -> Response:
    answer = error.get_response()
    if (error.code or 500) < 400:  # a redirect is no problem
        return Response(answer.get_data(), error.code, answer.headers)
    made = problem(error.code or 500, error.description or "")
    for name, value in answer.headers:
        if name.lower() not in ("content-type", "content-length"):
            made.headers[name] = value  # Allow of a 405
    return made


def _any(error: Exception) -> Response:
    for kind, (status, said) in STATUS_OF.items():
        if isinstance(error, kind):
            if status >= 500:
                _log.warning("%s %s: %s", request.method, request.path, type(error).__name__)
            return problem(status, said or str(error))
    _log.error("%s %s failed", request.method, request.path, exc_info=error)
    return problem(500, "The server made a mistake; its log has the details.")
