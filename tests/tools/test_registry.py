"""Where tools come from, and what happens when two collide or one does not load."""

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from app.domain.errors import ConfigError, UnknownTool
from app.tools import ToolCall, tool
from app.tools.registry import GROUP, Registry, unknown_tool_message

MODULE = '''
from app.tools import tool
from app.tools.tickets import get_ticket

@tool(effect="READ")
def {name}() -> str:
    """Say it."""
    return "{name} of {module}"

group = [{name}]
not_tools = [{name}, 5]
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path for tool modules, which are forgotten again afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def write(site: Path, module: str, name: str) -> str:
    (site / f"{module}.py").write_text(MODULE.format(name=name, module=module))
    return module


def install(site: Path, package: str, value: str) -> None:
    """What pip leaves behind for an entry point."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmain = {value}\n")


@tool(effect="READ")
def alpha() -> str:
    """Say alpha."""
    return "alpha passed in"


def test_tools_come_through_three_doors_with_their_sources(site: Path) -> None:
    write(site, "reg_one", "beta")
    write(site, "reg_two", "gamma")
    install(site, "acme-tools", "reg_two:gamma")
    registry = Registry([alpha], ["reg_one:beta"])
    assert [(entry.tool.name, entry.source) for entry in registry] == [
        ("alpha", "passed in"),
        ("beta", "TOOLS reg_one:beta"),
        ("gamma", "entry point main of acme-tools"),
    ]
    assert registry.failures == {}


@pytest.mark.parametrize(
    ("attribute", "names"), [("", ["delta", "get_ticket"]), (":delta", ["delta"]), (":group", ["delta"])]
)
def test_a_module_an_attribute_or_a_list_can_be_named(site: Path, attribute: str, names: list[str]) -> None:
    write(site, "reg_three", "delta")
    assert [entry.tool.name for entry in Registry(modules=["reg_three" + attribute], plugins=())] == names


def test_two_tools_of_one_name_are_an_error_that_names_both_sources(site: Path) -> None:
    write(site, "reg_four", "same")
    write(site, "reg_five", "same")
    with pytest.raises(ConfigError, match=r"'same'.*TOOLS reg_four.*TOOLS reg_five"):
        Registry(modules=["reg_four", "reg_five"], plugins=())
    install(site, "clash", "reg_five:same")
    with pytest.raises(ConfigError, match=r"TOOLS reg_four.*entry point main of clash"):
        Registry(modules=["reg_four"])


def test_the_same_tool_reached_twice_is_one_tool() -> None:
    registry = Registry([alpha, alpha], ["app.tools.tickets", "app.tools.tickets:get_ticket"], plugins=())
    assert sum(entry.tool.name == "get_ticket" for entry in registry) == 1


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("raise RuntimeError('no database')", "RuntimeError: no database"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("from app.tools import tool\n@tool()\ndef f() -> None: ...", "declares no effect"),
        ("x = 1", "has no tool in it"),
    ],
)
def test_a_module_that_does_not_load_is_written_down_and_harms_no_other(
    site: Path, text: str, failure: str, request: pytest.FixtureRequest
) -> None:
    (site / "reg_bad.py").write_text(text)
    write(site, "reg_good", "epsilon")
    registry = Registry(modules=["reg_bad", "reg_good"], plugins=())
    assert failure in registry.failures["reg_bad"]
    assert registry.get("epsilon") is not None


@pytest.mark.parametrize("spec", ["", "no.such.module", ".relative", "json", "app.tools.tickets:nothing", "json:dumps"])
def test_a_wrong_setting_is_a_failure_and_no_exception(spec: str) -> None:
    registry = Registry([alpha], [spec], plugins=())
    assert list(registry.failures) == [spec]
    assert [entry.tool for entry in registry] == [alpha]


def test_a_list_with_something_else_in_it_is_a_failure(site: Path) -> None:
    write(site, "reg_six", "zeta")
    assert "reg_six:not_tools" in Registry(modules=["reg_six:not_tools"], plugins=()).failures


def test_a_broken_plugin_is_named_with_its_package(site: Path) -> None:
    install(site, "broken-tools", "reg_nowhere:x")
    registry = Registry(plugins=entry_points(group=GROUP))
    assert "reg_nowhere" in registry.failures["entry point main of broken-tools"]


def test_definitions_are_sorted_by_name_whatever_the_load_order() -> None:
    @tool(effect="READ")
    def omega() -> None: ...

    one, other = Registry([alpha, omega], plugins=()), Registry([omega, alpha], plugins=())
    assert [definition.name for definition in one.definitions()] == ["alpha", "omega"]
    assert one.definitions() == other.definitions()
    assert one.definitions(["omega", "alpha"]) == one.definitions()
    assert [definition.name for definition in one.definitions(["omega"])] == ["omega"]


def test_asking_for_a_definition_that_is_not_here_names_those_that_are() -> None:
    with pytest.raises(UnknownTool, match=r"'alfa'.*alpha"):
        Registry([alpha], plugins=()).definitions(["alfa"])


def test_a_found_tool_runs(call: ToolCall) -> None:
    registry = Registry([alpha], plugins=())
    found = registry.get("alpha")
    assert found is not None
    assert found.invoke({}, call) == "alpha passed in"
    assert registry.get("Alpha") is None


def test_the_message_for_an_unknown_tool_suggests_the_nearest() -> None:
    said = unknown_tool_message("list_tikets", ["get_ticket", "list_tickets"])
    assert (
        said == "There is no tool 'list_tikets'. Did you mean 'list_tickets'? The tools are: get_ticket, list_tickets."
    )
    assert "no tools" in unknown_tool_message("x", [])


def test_the_message_for_an_unknown_tool_is_bounded_and_clean() -> None:
    said = unknown_tool_message("\x00\ud800" + "x" * 10_000, [f"tool_number_{n}" for n in range(5000)])
    assert len(said) < 2500
    assert "\x00" not in said
    said.encode("utf-8")


def test_queues_are_those_that_tools_name_and_always_the_one_where_unknown_tools_are_answered() -> None:
    @tool(effect="READ", queue="reports")
    def report() -> str:
        """Report."""
        return ""

    assert Registry(plugins=()).queues() == ("tool",)
    assert Registry([report], plugins=()).queues() == ("reports", "tool")
