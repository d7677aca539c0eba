"""Requests that the Messages API refuses: the rule that each breaks, and the text of its 400."""

from collections.abc import Callable
from typing import Any

from app.llm.fake import rules_content, rules_history, rules_request, rules_tools
from tests.support.raw_api import ask

Rule = Callable[[dict[str, Any]], str | None]

MARK = {"type": "ephemeral"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}
TEXT = {"type": "text", "text": "hello"}
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "{}: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def talk(*messages: Any, **more: Any) -> dict[str, Any]:
    return ask(messages=list(messages), **more)


def offer(*tools: Any) -> dict[str, Any]:
    return ask(tools=list(tools))


def schema(value: Any) -> dict[str, Any]:
    return offer({"name": "look", "input_schema": value})


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in ask().items() if key != name}


CASES: list[tuple[Rule, Any, str]] = [
    (rules_request.no_extra_fields, ask(temperature=1), "temperature: Extra inputs are not permitted"),
    (rules_request.no_extra_fields, ask(top_p=0.5), "top_p: Extra inputs are not permitted"),
    (rules_request.no_extra_fields, ask(top_k=5), "top_k: Extra inputs are not permitted"),
    (rules_request.no_extra_fields, ask(colour="red"), "colour: Extra inputs are not permitted"),
    (rules_request.required_fields, without("model"), "model: Field required"),
    (rules_request.required_fields, without("max_tokens"), "max_tokens: Field required"),
    (rules_request.required_fields, without("messages"), "messages: Field required"),
    (rules_request.field_types, ask(max_tokens="10"), "max_tokens: Input should be a valid integer"),
    (rules_request.field_types, ask(max_tokens=True), "max_tokens: Input should be a valid integer"),
    (rules_request.field_types, ask(model=5), "model: Input should be a valid string"),
    (rules_request.field_types, ask(messages="hello"), "messages: Input should be a valid list"),
    (rules_request.field_types, ask(stream="yes"), "stream: Input should be a valid boolean"),
    (rules_request.field_types, ask(tools=None), "tools: Input should be a valid list"),
    (
        rules_request.max_tokens_is_positive,
        ask(max_tokens=0),
        "max_tokens: Input should be greater than or equal to 1",
    ),
    (rules_request.some_messages, talk(), "messages: at least one message is required"),
    (rules_content.message_shape, talk("hello"), "messages.0: Input should be a valid dictionary"),
    (rules_content.message_shape, talk({"content": "hello"}), "messages.0.role: Field required"),
    (
        rules_content.message_shape,
        talk({"role": "user", "content": "hello", "name": "Ann"}),
        "messages.0.name: Extra inputs are not permitted",
    ),
    (
        rules_content.message_shape,
        talk({"role": "tool", "content": "hello"}),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    (
        rules_content.message_shape,
        talk({"role": "user", "content": None}),
        "messages.0.content: Input should be a valid list",
    ),
    (rules_content.block_shape, talk(user("hello")), "messages.0.content.0: Input should be a valid dictionary"),
    (rules_content.block_shape, talk(user({"text": "hello"})), "messages.0.content.0.type: Field required"),
    (
        rules_content.block_shape,
        talk(user(TEXT), assistant(USE), user({**RESULT, "content": {"rows": 1}})),
        "messages.2.content.0.tool_result.content: Input should be a valid list",
    ),
    (
        rules_content.block_shape,
        talk(user(TEXT), assistant(USE), user({**RESULT, "content": [USE]})),
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' does not match any of the expected tags",
    ),
    (rules_content.block_fields, talk(user({"type": "text"})), "messages.0.content.0.text.text: Field required"),
    (
        rules_content.block_fields,
        talk(user(TEXT), assistant({**USE, "input": "{}"}), user(RESULT)),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    (
        rules_content.block_fields,
        talk(user(TEXT), assistant({"type": "thinking", "thinking": ""}, TEXT), user(TEXT)),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    (
        rules_content.no_extra_block_fields,
        talk(user({**TEXT, "colour": "red"})),
        "messages.0.content.0.text.colour: Extra inputs are not permitted",
    ),
    (
        rules_content.blocks_fit_the_role,
        talk(user(USE), assistant(TEXT), user(TEXT)),
        "messages.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    (
        rules_content.blocks_fit_the_role,
        talk(user(TEXT), assistant(RESULT), user(TEXT)),
        "messages.1: `tool_result` blocks can only be in `user` messages",
    ),
    (
        rules_content.content_is_not_empty,
        talk(user(TEXT), assistant(), user(TEXT)),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    (
        rules_content.no_cache_control_on_empty_text,
        talk(user({"type": "text", "text": "", "cache_control": MARK})),
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
    ),
    (
        rules_content.text_is_not_empty,
        talk(user(TEXT, {"type": "text", "text": ""})),
        "messages: text content blocks must be non-empty",
    ),
    (
        rules_content.text_is_not_empty,
        talk(user(TEXT), assistant(USE), user({**RESULT, "content": [{"type": "text", "text": ""}]})),
        "messages: text content blocks must be non-empty",
    ),
    (
        rules_content.text_is_not_empty,
        talk(user(TEXT), assistant({"type": "text", "text": "\n "}), user(TEXT)),
        "messages: text content blocks must contain non-whitespace text",
    ),
    (
        rules_content.system_is_not_empty,
        ask(system=[{"type": "text", "text": ""}]),
        "system: text content blocks must be non-empty",
    ),
    (
        rules_content.tool_use_ids_are_plain,
        talk(user(TEXT), assistant({**USE, "id": "call:1"}), user({**RESULT, "tool_use_id": "call:1"})),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    (rules_tools.tool_shape, offer("look"), "tools.0: Input should be a valid dictionary"),
    (rules_tools.tool_shape, offer({"name": "look"}), "tools.0.custom.input_schema: Field required"),
    (
        rules_tools.tool_shape,
        offer({**TOOL, "effect": "READ"}),
        "tools.0.custom.effect: Extra inputs are not permitted",
    ),
    (
        rules_tools.tool_names,
        offer({**TOOL, "name": "look.up"}),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    (
        rules_tools.tool_names,
        offer({**TOOL, "name": "n" * 129}),
        "tools.0.custom.name: String should have at most 128 characters",
    ),
    (
        rules_tools.tool_names,
        offer({**TOOL, "name": "n" * 65}),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ),
    (rules_tools.tool_names_are_unique, offer(TOOL, TOOL), "tools: Tool names must be unique."),
    (rules_tools.tool_schemas, schema({}), "tools.0.custom.input_schema.type: Field required"),
    (rules_tools.tool_schemas, schema({"type": "array"}), "tools.0.custom.input_schema.type: Input should be 'object'"),
    (
        rules_tools.tool_schemas,
        schema({"type": "object", "properties": []}),
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    ),
    *(
        (
            rules_tools.tool_schemas,
            schema({"type": "object", union: [{}]}),
            "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        )
        for union in ("oneOf", "allOf", "anyOf")
    ),
    (
        rules_request.cache_control_shape,
        ask(cache_control={"type": "forever"}),
        "cache_control.type: Input should be 'ephemeral'",
    ),
    (
        rules_request.few_breakpoints,
        talk(
            user({**TEXT, "cache_control": MARK}, {**TEXT, "cache_control": MARK}),
            system=[{**TEXT, "cache_control": MARK}],
            tools=[{**TOOL, "cache_control": MARK}],
            cache_control=MARK,
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        rules_history.first_message_is_user,
        talk(assistant(TEXT), user(TEXT)),
        'messages: first message must use the "user" role',
    ),
    (
        rules_history.system_follows_user,
        talk(user(TEXT), {"role": "system", "content": "Be brief."}, user(TEXT)),
        "messages.1: `system` messages must follow a `user` message and must not precede one",
    ),
    (
        rules_history.tool_use_ids_are_unique,
        talk(user(TEXT), assistant(USE, USE), user(RESULT)),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    (
        rules_history.one_result_for_each_id,
        talk(user(TEXT), assistant(USE), user(RESULT, RESULT)),
        "messages.2.content.1: each tool_use must have a single result. "
        "Found multiple `tool_result` blocks with id: toolu_1",
    ),
    (rules_history.no_orphan_results, talk(user(RESULT)), ORPHAN.format("messages.0.content.0")),
    (
        rules_history.no_orphan_results,
        talk(user(TEXT), assistant(TEXT), user(TEXT, RESULT)),
        ORPHAN.format("messages.2.content.1"),
    ),
    (
        rules_history.every_tool_use_is_answered,
        talk(user(TEXT), assistant(USE, {**USE, "id": "toolu_2"}), user(TEXT)),
        UNANSWERED.format("toolu_1, toolu_2"),
    ),
    (
        rules_history.every_tool_use_is_answered,
        talk(user(TEXT), assistant(USE), user(TEXT, RESULT)),
        UNANSWERED.format("toolu_1"),
    ),
    (
        rules_history.every_tool_use_is_answered,
        talk(user(TEXT), assistant(USE), user(TEXT), user(RESULT)),
        UNANSWERED.format("toolu_1"),
    ),
    (
        rules_history.no_prefill,
        talk(user(TEXT), assistant(TEXT)),
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ),
]
