"""A refusal, in Anthropic's form: status, error type and message, and the body they make."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is not answered.

    Attributes:
        status: HTTP status.
        type: Anthropic's error type, such as `invalid_request_error`.
        details: more of the `error` object, such as `{"details": {"error_code": ...}}`.
    """

    status: int
    type: str
    message: str
    details: dict[str, Any] | None = None

    def body(self, request_id: str) -> dict[str, Any]:
        """The JSON body of the answer."""
        error = {"type": self.type, "message": self.message, **(self.details or {})}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str) -> Problem:
    """A 400: the request itself is wrong, and will be wrong again."""
    return Problem(400, "invalid_request_error", message)
