"""The body of POST /api/runs: strict types, no unknown fields, every fault with its JSON pointer.

Text rule: NUL and lone surrogates, which no store and no wire can carry, become U+FFFD in input, system and metadata.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from app.api.body import Number
from app.api.plain_json import NotPlain, plain, pointer_part
from app.api.problems import BadRequest, Fault
from app.config import Settings
from app.domain.agent import AgentVersion, ToolDefinition
from app.domain.pricing import nano_of
from app.domain.run import NewRun
from app.domain.text import clean, dumps

MAX_TOKEN_BUDGET = 2**53
MAX_COST_USD = 1_000_000_000
METADATA_MAX_BYTES = 16_384
METADATA_MAX_DEPTH = 16
INPUT_MAX_DEPTH = 64

_DOLLARS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
Json = Any


def _given(value: Json) -> Json:
    if value is None:
        raise PydanticCustomError("null", "null is not a value here: leave the field out")
    return value


def _plain(value: Json, max_depth: int) -> Json:
    try:
        return plain(value, max_depth)
    except NotPlain as error:
        raise PydanticCustomError(error.code, error.detail, {"at": error.at}) from error


def _input(value: Json) -> Json:
    if isinstance(value, str):
        if not value.strip():
            raise PydanticCustomError("empty", "say something: a model refuses blank text")
        return clean(value)
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("input_type", "a non-empty string, or a non-empty list of content blocks")
    for index, block in enumerate(value):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str) or not block["type"]:
            raise PydanticCustomError("block", "a content block is an object with a string 'type'", {"at": f"/{index}"})
    return _plain(value, INPUT_MAX_DEPTH)


def _metadata(value: Json) -> Json:
    if not isinstance(value, dict):
        raise PydanticCustomError("dict_type", "an object")
    cleaned = _plain(value, METADATA_MAX_DEPTH)
    size = len(dumps(cleaned).encode())
    if size > METADATA_MAX_BYTES:
        raise PydanticCustomError("too_large", f"{size} bytes of metadata; at most {METADATA_MAX_BYTES} are kept")
    return cleaned


def _dollars(value: Json) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Number):
        raise PydanticCustomError("dollars_type", 'US dollars as a decimal string ("0.25") or a number')
    if isinstance(value, str) and not _DOLLARS.fullmatch(value):
        raise PydanticCustomError("dollars", "decimal digits with at most 9 after the point")
    try:
        amount = Decimal(value.text if isinstance(value, Number) else value)
        too_fine = amount != amount.quantize(Decimal("1e-9"))
    except InvalidOperation:
        too_fine = True  # an exponent beyond all bounds
    if too_fine or not 0 < amount <= MAX_COST_USD:
        raise PydanticCustomError("dollars", f"above 0, at most {MAX_COST_USD}, at most 9 decimals")
    return amount


Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,100}$")]
CleanText = Annotated[str, AfterValidator(clean)]


class ApiModel(BaseModel):
    """What all bodies have in common: camelCase, and nothing that we do not know."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class RunRequest(ApiModel):
    """What a caller says to start a run. Fields that may be left out may not be null."""

    input: Annotated[str | list[dict[str, Any]], BeforeValidator(_input)]
    token_budget: Annotated[int, Field(strict=True, ge=1, le=MAX_TOKEN_BUDGET)]
    timeout_seconds: Count
    model: Annotated[ModelName | None, BeforeValidator(_given)] = None
    system: Annotated[CleanText | None, BeforeValidator(_given)] = None
    cost_budget_usd: Annotated[Decimal | None, BeforeValidator(_dollars)] = None
    max_steps: Annotated[Count | None, BeforeValidator(_given)] = None
    metadata: Annotated[dict[str, Any], BeforeValidator(_metadata)] = Field(default_factory=dict)


def read_run_request(body: Json, settings: Settings, tools: tuple[ToolDefinition, ...]) -> NewRun:
    """The run that a body asks for.

    Raises:
        BadRequest: 422, with everything that is wrong.
    """
    try:
        asked = RunRequest.model_validate(body)
    except ValidationError as error:
        raise _unprocessable([_fault(found) for found in error.errors(include_url=False)]) from error
    faults = [
        Fault(f"/{field}", f"at most {most} here", "less_than_equal")
        for field, value, most in (
            ("timeoutSeconds", asked.timeout_seconds, settings.max_timeout_seconds),
            ("maxSteps", asked.max_steps or 1, settings.max_steps),
        )
        if value > most
    ]
    if faults:
        raise _unprocessable(faults)
    # An empty system text is a wish, too: none. The API refuses empty blocks.
    system = settings.system_prompt if asked.system is None else asked.system or None
    return NewRun(
        agent=AgentVersion(asked.model or settings.model, settings.max_tokens, system, tools),
        input=asked.input,
        token_budget=asked.token_budget,
        timeout_s=asked.timeout_seconds,
        step_cap=asked.max_steps or settings.max_steps,
        cost_budget_nano=None if asked.cost_budget_usd is None else nano_of(asked.cost_budget_usd),
        metadata=asked.metadata,
    )


def _unprocessable(faults: list[Fault]) -> BadRequest:
    return BadRequest(422, "the body is not what POST /api/runs takes; see errors", faults)


def _fault(found: Any) -> Fault:
    """Pydantic's finding, with a pointer to the field and to the place in it."""
    path = "".join(f"/{pointer_part(str(part))}" for part in found["loc"])
    return Fault(path + found.get("ctx", {}).get("at", ""), found["msg"], found["type"])
