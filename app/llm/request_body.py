"""The fields of one Messages API request.

Caching: automatic (the breakpoint moves to the last block each turn), and one fixed breakpoint at the end of the
stable prefix, which is the system text, or the last tool where there is no system text.
"""

from typing import Any

from app.llm.client import ModelRequest

_EPHEMERAL = {"type": "ephemeral"}


def request_body(request: ModelRequest) -> dict[str, Any]:
    """The keyword arguments of `messages.stream`. Never changes the request or anything in it.

    Sampling knobs (`temperature` and the like) are gone since API version 2026-10-21 and have no place here.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": request.messages,
        "cache_control": dict(_EPHEMERAL),
    }
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": dict(_EPHEMERAL)}]
    if request.tools:
        body["tools"] = request.tools if request.system else _with_breakpoint(request.tools)
    if request.thinking is not None:
        body["thinking"] = request.thinking
    if request.effort is not None:
        body["output_config"] = {"effort": request.effort}
    return body


def _with_breakpoint(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*tools[:-1], {**tools[-1], "cache_control": dict(_EPHEMERAL)}]
