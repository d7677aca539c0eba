"""Rules about the tools that a request offers. Server tools (with a dated `type`) bring their own schema."""

import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]

MAX_NAME = 128
# The documentation allows 64 characters, the API's own error text 128; what passes here must pass both.
_NAME_RULES = (
    (re.compile(r"[a-zA-Z0-9_-]+"), "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    (re.compile(r".{,128}"), f"String should have at most {MAX_NAME} characters"),
    (re.compile(r".{,64}"), "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"),
)
_UNIONS = ("oneOf", "allOf", "anyOf")
_INVALID = "JSON schema is invalid. It must match JSON Schema draft 2020-12"
FIELDS = frozenset(
    {"name", "description", "input_schema", "type", "strict", "cache_control", "defer_loading", "allowed_callers"}
    | {"eager_input_streaming", "input_examples"}
)


def tool_shape(body: Body) -> str | None:
    """A tool is an object with a name and an input_schema, and no unknown field."""
    for at, tool in enumerate(body.get("tools", ())):
        if not isinstance(tool, dict):
            return f"tools.{at}: Input should be a valid dictionary"
    for at, tool in _custom(body):
        fault = _shape_fault(tool)
        if fault is not None:
            return f"tools.{at}.custom.{fault}"
    return None


def _shape_fault(tool: Body) -> str | None:
    for name, kind, noun in (("name", str, "string"), ("input_schema", dict, "dictionary")):
        if name not in tool:
            return f"{name}: Field required"
        if not isinstance(tool[name], kind):
            return f"{name}: Input should be a valid {noun}"
    if not isinstance(tool.get("description", ""), str):
        return "description: Input should be a valid string"
    return next((f"{name}: Extra inputs are not permitted" for name in tool if name not in FIELDS), None)


def tool_names(body: Body) -> str | None:
    """Letters, digits, `_` and `-`, and not too many."""
    for at, tool in _custom(body):
        for pattern, message in _NAME_RULES:
            if not pattern.fullmatch(tool["name"]):
                return f"tools.{at}.custom.name: {message}"
    return None


def tool_names_are_unique(body: Body) -> str | None:
    """No two tools of one name, server tools included."""
    names = [tool.get("name") for tool in body.get("tools", ()) if isinstance(tool.get("name"), str)]
    return None if len(names) == len(set(names)) else "tools: Tool names must be unique."


def tool_schemas(body: Body) -> str | None:
    """The schema is that of an object, written out: no union at the top."""
    for at, tool in _custom(body):
        fault = _schema_fault(tool["input_schema"])
        if fault is not None:
            return f"tools.{at}.custom.{fault}"
    return None


def _schema_fault(schema: Body) -> str | None:
    if any(union in schema for union in _UNIONS):
        return "input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
    if "type" not in schema:
        return "input_schema.type: Field required"
    if schema["type"] != "object":
        return "input_schema.type: Input should be 'object'"
    return None if _is_schema(schema) else f"input_schema: {_INVALID}"


def _is_schema(schema: Body) -> bool:
    """Whether the parts that every tool uses have their form; this is no full check against the draft."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(part, dict | bool) for part in properties.values()):
        return False
    return isinstance(required, list) and all(isinstance(name, str) for name in required)


def _custom(body: Body) -> Iterator[tuple[int, Body]]:
    for at, tool in enumerate(body.get("tools", ())):
        if tool.get("type") in (None, "custom"):
            yield at, tool
