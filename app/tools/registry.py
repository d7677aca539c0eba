"""All tools that this process has, and where each came from: passed in, named by TOOLS, or by installed packages.

Rules:
1. Load order is fixed: passed in, then TOOLS in its own order, then the entry points by name.
2. Two tools of one name are an error that names both sources; the same tool reached twice is one tool.
3. A module that fails to load is written down in `failures`; only its own tools are missing.
"""

import difflib
import functools
import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from app.domain.agent import ToolDefinition
from app.domain.errors import ConfigError, UnknownTool
from app.domain.text import clean, shorten
from app.tools.declare import Tool
from app.tools.result import error_text

#: The entry-point group by which installed packages offer tools.
GROUP = "durable_agent.tools"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool, and who brought it, in words."""

    tool: Tool[..., Any]
    source: str


class Registry:
    """The tools of this process.

    Args:
        tools: passed in directly (embedded use).
        modules: the TOOLS setting: `my.module` (every tool in it) or `my.module:attr` (a tool, or a list of tools).
        plugins: entry points to load; None: those of the installed packages.

    Attributes:
        failures: what failed to load, with the error text.

    Raises:
        ConfigError: two tools have one name.
    """

    def __init__(
        self,
        tools: Iterable[Tool[..., Any]] = (),
        modules: Sequence[str] = (),
        plugins: Iterable[EntryPoint] | None = None,
    ) -> None:
        self.failures: dict[str, str] = {}
        self._tools: dict[str, Registered] = {}
        for tool in tools:
            self._add(tool, "passed in")
        for spec in modules:
            self._load(spec, f"TOOLS {spec}", functools.partial(_resolve, spec))
        found = entry_points(group=GROUP) if plugins is None else plugins
        for plugin in sorted(found, key=lambda plugin: (plugin.name, plugin.value)):
            self._load(_label(plugin), _label(plugin), plugin.load)

    def get(self, name: str) -> Tool[..., Any] | None:
        """The tool of that name, if this process has it."""
        entry = self._tools.get(name)
        return entry.tool if entry else None

    def __iter__(self) -> Iterator[Registered]:
        """Every tool with its source, by name."""
        return iter(sorted(self._tools.values(), key=lambda entry: entry.tool.name))

    def definitions(self, names: Iterable[str] | None = None) -> tuple[ToolDefinition, ...]:
        """What the model is offered, sorted by name: the same set of tools is always the same agent version.

        Args:
            names: only these; None: all.

        Raises:
            UnknownTool: one of the names is not here.
        """
        chosen = set(self._tools if names is None else names)
        missing = sorted(chosen - self._tools.keys())
        if missing:
            raise UnknownTool(unknown_tool_message(missing[0], self._tools))
        return tuple(self._tools[name].tool.definition for name in sorted(chosen))

    def queues(self) -> tuple[str, ...]:
        """What tool workers must serve: the queues that tools name, and `tool`, where unknown tools are answered."""
        return tuple(sorted({"tool"} | {entry.tool.definition.queue for entry in self}))

    def _load(self, key: str, source: str, load: Callable[[], object]) -> None:
        try:
            tools = _tools_in(load())
        # SystemExit: a script without a main guard must not end the worker that imports it.
        except (Exception, SystemExit) as error:
            self.failures[key] = error_text(error, 500)
            _log.warning("tools not loaded: %s: %s", source, self.failures[key])
            return
        for tool in tools:
            self._add(tool, source)

    def _add(self, tool: Tool[..., Any], source: str) -> None:
        known = self._tools.setdefault(tool.name, Registered(tool, source))
        if known.tool is not tool:
            raise ConfigError(f"two tools are named {tool.name!r}: one from {known.source}, one from {source}")


def unknown_tool_message(name: str, available: Iterable[str]) -> str:
    """What the model reads when it asks for a tool that its run does not have."""
    names = sorted(available)
    asked = shorten(clean(name), 64)
    if not names:
        return f"There is no tool {asked!r}: this run has no tools."
    close = difflib.get_close_matches(asked, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"There is no tool {asked!r}.{hint} The tools are: {shorten(', '.join(names), 2000)}."


def _resolve(spec: str) -> object:
    module, _, attribute = spec.strip().partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def _tools_in(found: object) -> list[Tool[..., Any]]:
    if isinstance(found, Tool):
        return [found]
    members: list[object] = []
    if isinstance(found, ModuleType):
        members = [member for member in vars(found).values() if isinstance(member, Tool)]
        if not members:
            raise ConfigError(f"module {found.__name__} has no tool in it")
    elif isinstance(found, (list, tuple)):
        members = list(found)
    tools = [member for member in members if isinstance(member, Tool)]
    if not tools or len(tools) != len(members):
        raise ConfigError(f"expected a module, a tool or a list of tools, found {type(found).__name__}")
    return tools


def _label(plugin: EntryPoint) -> str:
    package = plugin.dist.name if plugin.dist else "an unknown package"
    return f"entry point {plugin.name} of {package}"
