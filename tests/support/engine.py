"""Runtimes for tests of the engine: each is one worker process, with its own name and its own line of wake-ups."""

import itertools
import json
from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import update

from app.config import Settings, price_book
from app.domain.agent import AgentVersion
from app.domain.run import NewRun
from app.domain.status import StepStatus
from app.engine.drive import LocalDispatcher
from app.engine.keeper import Keeper
from app.engine.runtime import Runtime
from app.llm.client import ModelClient
from app.llm.retrying import Retrying
from app.store.dialect import after
from app.store.store import Store
from app.store.tables import run_step
from app.tools.declare import Tool
from app.tools.registry import Registry

MODEL = "claude-sonnet-5-5"

_numbers = itertools.count(1)


def worker(store: Store, model: ModelClient, tools: Sequence[Tool[..., Any]] = (), **changes: Any) -> Runtime:
    """One worker process over this store: its own name, and no message in line."""
    return Runtime(
        **{
            "store": store,
            "dispatcher": LocalDispatcher(),
            "tools": Registry(tools=tools, plugins=()),
            "model": Retrying(model, max_tries=6, inline_max_s=2.0, sleep=lambda _: None),
            "prices": price_book(Settings()),
            "keeper": Keeper(store),
            "process": f"worker-{next(_numbers)}.test",
            "today": lambda: date(2026, 11, 30),
            **changes,
        }
    )


def task(runtime: Runtime, text: str = "Go on.", **limits: Any) -> NewRun:
    """A run with all tools of this worker."""
    agent = AgentVersion(MODEL, 1000, "You are a test.", runtime.tools.definitions())
    return NewRun(agent, text, **({"token_budget": 1_000_000, "timeout_s": 3600.0, "step_cap": 50} | limits))


def let_everything_lapse(store: Store) -> None:
    """Every lease has run out, and every message that was under way counts as lost."""
    unfinished = run_step.c.status.in_([StepStatus.READY.value, StepStatus.STARTED.value])
    with store.engine.begin() as connection:
        connection.execute(update(run_step).where(unfinished).values(due_at=after(-1.0)))


def result_blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tool results of a request, in order."""
    return [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def same_bytes(value: Any) -> str:
    """The text that two equal requests share to the letter."""
    return json.dumps(value, ensure_ascii=False)
