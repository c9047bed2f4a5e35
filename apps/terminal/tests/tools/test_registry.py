from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench

from adh.storage.places import find_places
from adh.tools.all_tools import find_hosted_tools, make_registry, make_tools
from adh.tools.reference_page import make_page
from adh.tools.tool_registry import TOOL_EFFECTS, ToolRegistry, ToolSpec
from adh.tools.tools_context import ToolsContext, make_tools_context, read_umask
from holdfast import tool
from holdfast.errors import ConfigurationError


@pytest.fixture
def context(tmp_path: Path) -> ToolsContext:
    places = find_places({"HOME": str(tmp_path)}, tmp_path)
    return make_tools_context(places, {"PATH": "/bin"})


@tool(effect="read")
def look() -> str:
    """Look."""
    return ""


def test_every_tool_has_a_description_a_schema_and_effects(context: ToolsContext) -> None:
    registry = make_registry(context)
    assert [spec.name for spec in registry] == [
        "read_file",
        "list_directory",
        "get_file_info",
        "write_file",
        "create_directory",
        "delete_file",
        "execute_command",
        "fetch_url",
    ]
    for spec in registry:
        assert spec.description
        assert spec.effects == TOOL_EFFECTS[spec.name]
        properties = spec.schema["properties"]
        assert isinstance(properties, dict)
        assert all(schema.get("description") for schema in properties.values())
    assert registry["write_file"].handler.effect == "write"
    assert registry["fetch_url"].handler.effect == "read"
    assert len(make_tools(context)) == len(registry) == 8


def test_making_the_tools_writes_nothing(context: ToolsContext, tmp_path: Path) -> None:
    make_tools(context)
    assert list(tmp_path.iterdir()) == []


def test_a_name_twice_is_an_error() -> None:
    spec = ToolSpec(handler=look, effects=frozenset({"reads_fs"}))
    with pytest.raises(ConfigurationError, match="two of them are named 'look'"):
        ToolRegistry([spec, spec])


def test_effects_are_known_and_fit_what_the_library_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"'reads_disk' is unknown.*reads_fs"):
        ToolRegistry([ToolSpec(handler=look, effects=frozenset({"reads_disk"}))])
    with pytest.raises(ConfigurationError, match="is 'read' and not 'write'"):
        ToolRegistry([ToolSpec(handler=look, effects=frozenset({"writes_fs"}))])


async def test_a_tool_that_is_not_there_is_told(bench: Workbench) -> None:
    assert "list_directory" in await bench.call("no_such_tool")


def test_the_umask_is_read_and_not_changed() -> None:
    first = read_umask()
    assert read_umask() == first


def test_the_page_lists_every_tool_as_it_is() -> None:
    page = Path(__file__).parents[2] / "docs" / "tools.md"
    assert page.read_text("utf-8") == make_page(), "it has drifted; run: ./run generate"


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("gemini", ["web_search", "web_fetch"]),
        ("anthropic", ["web_search", "web_fetch"]),
        ("groq", []),
        ("ollama", []),
    ],
)
def test_search_is_there_only_where_the_provider_has_it(provider: str, names: list[str]) -> None:
    assert [hosted.name for hosted in find_hosted_tools(provider)] == names


def test_a_provider_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigurationError):
        find_hosted_tools("nobody")
