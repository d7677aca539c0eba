"""From a function's signature to the JSON schema that the model sees, and from the model's arguments to Python values.

Rules:
1. Arguments are read as strict JSON. What JSON cannot spell is read from text (dates, Decimal, UUID, enums, sets from
   lists); all else must have its own type: "5" is no int, nor is true or 5.0, and 1 is no bool. An int is a float.
2. Integers arrive exact, whatever their size. NaN, infinities and lone surrogates are refused: JSON text has none.
3. Left-out arguments take the function's own defaults.
"""

import inspect
import json
import typing
from collections.abc import Callable
from typing import Any, cast

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from app.domain.errors import BadArguments, ConfigError
from app.tools.call import ToolCall
from app.tools.complaint import complaint, json_kind


class _Schema(GenerateJsonSchema):
    # A default that JSON cannot spell is simply not shown; a warning would come up at import time, out of place.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 (as its base class has it)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Titles repeat the names: tokens without news."""
        return False


class Signature:
    """The parameters of a tool.

    Attributes:
        description: the docstring without its sections, and what it says of the return value; else the tool's name.
        schema: JSON schema of the arguments: an object, closed, with `$defs` where types need names.

    Raises:
        ConfigError: the function cannot be a tool; the sentence says why.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        parameters = _parameters(function, name)
        hints = _hints(function, name)
        self._injected = tuple(p for p in parameters if _is_call(hints[p]))
        shown = [parameter for p, parameter in parameters.items() if p not in self._injected]
        # Fields are numbered and the real names are aliases: pydantic reserves names that parameters may have.
        self._fields = {f"p{n}": parameter.name for n, parameter in enumerate(shown)}
        self._model = _model(name, shown, hints)
        self.description, sections = _docstring(function, name)
        self.schema = _schema(self._model, name, sections)

    def read(self, arguments: object) -> dict[str, Any]:
        """The function's keyword arguments.

        Raises:
            BadArguments: with a text that the model can act on.
        """
        if not isinstance(arguments, dict):
            raise BadArguments(f"The arguments of {self._name} must be a JSON object, not {json_kind(arguments)}.")
        try:
            text = json.dumps(arguments, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArguments(f"The arguments of {self._name} are not JSON (a number out of range?).") from error
        try:
            values = self._model.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise BadArguments(complaint(self._name, error, tuple(self._fields.values()))) from error
        return {parameter: getattr(values, field) for field, parameter in self._fields.items()}

    def with_call(self, call: ToolCall) -> dict[str, ToolCall]:
        """The keyword arguments that take the call's context."""
        return dict.fromkeys(self._injected, call)


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    for p, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"tool {name}: the model passes arguments by name, so {parameter} cannot be a parameter")
        if parameter.annotation is parameter.empty:
            raise ConfigError(f"tool {name}: parameter {p} needs a type annotation")
        if isinstance(parameter.default, FieldInfo):
            raise ConfigError(f"tool {name}: write {p}: Annotated[..., Field(...)], so that plain calls keep a default")
    return dict(parameters)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ConfigError(f"tool {name}: its annotations do not resolve: {error}") from error


def _is_call(hint: Any) -> bool:
    return hint is ToolCall or hint == ToolCall | None


def _model(name: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for n, p in enumerate(parameters):
        default = Field(alias=p.name) if p.default is p.empty else Field(default=p.default, alias=p.name)
        fields[f"p{n}"] = (hints[p.name], default)
    try:
        return cast(type[BaseModel], create_model(name, __config__=ConfigDict(extra="forbid"), **fields))
    except Exception as error:
        raise ConfigError(f"tool {name}: a parameter's type cannot be read from JSON: {_first(error)}") from error


def _schema(model: type[BaseModel], name: str, sections: dict[str, str]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Schema)
    except Exception as error:
        raise ConfigError(f"tool {name}: a parameter's type has no JSON schema: {_first(error)}") from error
    schema.pop("title", None)
    for p, shape in schema["properties"].items():
        if p in sections:
            shape.setdefault("description", sections[p])
    return schema


def _docstring(function: Callable[..., Any], name: str) -> tuple[str, dict[str, str]]:
    try:
        said = docstring_parser.parse(inspect.getdoc(function) or "", style=docstring_parser.DocstringStyle.GOOGLE)
    except docstring_parser.ParseError as error:
        raise ConfigError(f"tool {name}: its docstring cannot be read: {_first(error)}") from error
    returns = f"Returns: {said.returns.description}" if said.returns and said.returns.description else None
    parts = [part.strip() for part in (said.description, returns) if part]
    return "\n\n".join(parts) or name, {p.arg_name: p.description for p in said.params if p.description}


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
