"""What a run was started with is addressed by its content."""

from dataclasses import replace

import pytest

from app.domain.agent import AgentVersion
from app.domain.effect import Effect, may_repeat
from app.domain.lease import owner_node, owner_text
from app.domain.usage import Usage
from tests.support.builders import AGENT, tool


def test_the_stored_form_comes_back_equal_with_the_same_id() -> None:
    agent = replace(AGENT, thinking={"type": "adaptive"}, effort="high", system="é \x00 \ud800")
    again = AgentVersion.from_body(agent.body())
    assert again == agent
    assert again.id == agent.id
    assert len(agent.id) == 64


@pytest.mark.parametrize(
    "changed",
    [
        replace(AGENT, system="Be verbose."),
        replace(AGENT, tools=AGENT.tools[::-1]),
        replace(AGENT, tools=(tool("look", Effect.UNSAFE), *AGENT.tools[1:])),
        replace(AGENT, max_tokens=1025),
        replace(AGENT, effort="low"),
    ],
)
def test_any_change_makes_another_version(changed: AgentVersion) -> None:
    assert changed.id != AGENT.id


def test_a_tool_is_sent_without_the_rules_that_are_ours() -> None:
    assert set(tool("look").as_sent()) == {"name", "description", "input_schema"}
    assert AGENT.tool("look") == tool("look")
    assert AGENT.tool("fly") is None


def test_only_reads_and_keyed_calls_may_repeat() -> None:
    assert {effect for effect in Effect if may_repeat(effect)} == {Effect.READ, Effect.KEYED}


def test_the_node_is_read_from_the_owner() -> None:
    owner = owner_text("worker-A.3f", 12, "task", "n1")
    assert owner == "worker-A.3f/12/task/n1"
    assert owner_node(owner) == "worker-A"
    assert owner_node(owner + "/lapsed") == "worker-A"
    assert owner_node(None) is None


def test_usage_counts_each_token_once() -> None:
    usage = Usage(1, 2, 4, 8, 4) + Usage(10, 20, 40, 80)
    assert (usage.prompt_tokens, usage.total_tokens, usage.cache_write_1h_tokens) == (11 + 44 + 88, 165, 4)
