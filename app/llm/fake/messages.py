"""POST /v1/messages: log the request, judge it, and play the turn that answers it.

The order is the API's: key, version header, JSON, rules. A refused request takes no turn of its script.
"""

import json
import re
import time
import uuid
from typing import Any

from app.llm.fake import demo_model
from app.llm.fake.play import Exchange, play
from app.llm.fake.problem import Problem, invalid
from app.llm.fake.rules import validate
from app.llm.fake.scripts import key_of
from app.llm.fake.state import FakeState
from app.llm.fake.wire import Wire

_SURROGATE = re.compile(rb"\\u[dD][89abAB]", re.IGNORECASE)


def answer(state: FakeState, connection: Wire, headers: dict[str, str], raw: bytes) -> None:
    """Answer one request.

    Raises:
        ClientGone: there is nobody left to answer, or the script cut the connection.
    """
    body, unreadable = _parse(raw)
    key = key_of(body)
    request_id = f"req_{uuid.uuid4().hex[:24]}"
    entry = state.log.add(key or "", raw, headers)
    exchange = Exchange(state, connection, entry, request_id, _headers(request_id))
    problem = _unauthorized(state, headers) or _no_version(headers) or unreadable
    problem = problem or validate(body, resuming=key is not None and state.scripts.is_paused(key))
    if problem is not None:
        exchange.refuse(problem)
        return
    turn = demo_model.answer(body) if key is None else state.scripts.next_turn(key)
    if turn is None:
        exchange.refuse(Problem(500, "api_error", f"script exhausted: no turn left for key '{key}'"))
        return
    play(exchange, turn, body)


def _parse(raw: bytes) -> tuple[Any, Problem | None]:
    """The body as strict JSON: UTF-8, no NaN, no lone surrogate."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        if _SURROGATE.search(raw):
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return None, invalid("The request body is not valid JSON: no low surrogate in string")
    except (ValueError, RecursionError) as error:
        return None, invalid(f"The request body is not valid JSON: {error}")
    return body, None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"unexpected {name}")


def _unauthorized(state: FakeState, headers: dict[str, str]) -> Problem | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    # Both may come; the API then looks at x-api-key.
    given = headers.get("x-api-key") or bearer
    if not given:
        return Problem(401, "authentication_error", "x-api-key header is required")
    if state.api_key is not None and given != state.api_key:
        return Problem(401, "authentication_error", "invalid x-api-key")
    return None


def _no_version(headers: dict[str, str]) -> Problem | None:
    return None if headers.get("anthropic-version") else invalid("anthropic-version: header is required")


def _headers(request_id: str) -> dict[str, str]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    limits = {"limit": "4000", "remaining": "3999", "reset": now}
    return {"request-id": request_id, **{f"anthropic-ratelimit-requests-{name}": each for name, each in limits.items()}}
