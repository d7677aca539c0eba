"""The rules that a Messages request must keep, as one table; the first that is broken gives the 400.

A rule is a function from the body to the message of its 400, or None. Order matters: later rules trust the shapes that
earlier ones checked.
"""

from collections.abc import Callable
from typing import Any

from app.llm.fake import rules_content, rules_history, rules_request, rules_tools
from app.llm.fake.problem import Problem, invalid

Rule = Callable[[dict[str, Any]], str | None]

RULES: tuple[Rule, ...] = (
    rules_request.no_extra_fields,
    rules_request.required_fields,
    rules_request.field_types,
    rules_request.max_tokens_is_positive,
    rules_request.some_messages,
    rules_content.message_shape,
    rules_content.block_shape,
    rules_content.block_fields,
    rules_content.no_extra_block_fields,
    rules_content.blocks_fit_the_role,
    rules_content.content_is_not_empty,
    rules_content.no_cache_control_on_empty_text,
    rules_content.text_is_not_empty,
    rules_content.system_is_not_empty,
    rules_content.tool_use_ids_are_plain,
    rules_tools.tool_shape,
    rules_tools.tool_names,
    rules_tools.tool_schemas,
    rules_tools.tool_names_are_unique,
    rules_request.cache_control_shape,
    rules_request.few_breakpoints,
    rules_history.first_message_is_user,
    rules_history.system_follows_user,
    rules_history.tool_use_ids_are_unique,
    rules_history.one_result_for_each_id,
    rules_history.no_orphan_results,
    rules_history.every_tool_use_is_answered,
)


def validate(body: object, *, resuming: bool = False) -> Problem | None:
    """The first broken rule, or None when the request may be answered.

    Args:
        body: the parsed JSON.
        resuming: the conversation's last turn was paused (`pause_turn`, `compaction`), so that the assistant's message
            may be the last one.
    """
    if not isinstance(body, dict):
        return invalid("Input should be a valid dictionary")
    rules = RULES if resuming else (*RULES, rules_history.no_prefill)
    for rule in rules:
        message = rule(body)
        if message is not None:
            return invalid(message)
    return None
