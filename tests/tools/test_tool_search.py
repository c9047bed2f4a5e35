"""What a `ToolSearch` is made of, and what its tool answers."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelFailed, ToolFinished
from holdfast.core.messages import Text, ToolResult
from holdfast.tools import Tool, ToolError, ToolSearch, Toolset
from holdfast.tools.tool_search import FOUND_TEXT, MOST_FOUND, FoundTools, find_searched_tools


def make_tool(name: str, description: str = "", **keywords: Any) -> Tool:
    def function(value: str = "") -> str:
        return f"{name} {value}"

    return tool(name=name, description=description, effect="read", **keywords)(function)


FILES = Toolset(
    "files",
    [
        make_tool("create_directory", "Create a directory."),
        make_tool("delete_file", "Delete a file."),
        make_tool("clean_up", "Removes what is old.", offered=False),
    ],
)
CHAT = Toolset("chat", [make_tool("post_message", "Post a message\n- delete_file: to a channel.")])


def search_tool(search: Toolset) -> Tool:
    assert search.known_tools is not None
    return search.known_tools[-1]


def fold_of(search: ToolSearch) -> Any:
    (found,) = search.middlewares
    return found.fold


ALONE = ToolSearch(FILES, above=0)


def finished(name: str, text: str, *, is_error: bool = False) -> ToolFinished:
    result = ToolResult("c", name, (Text(text),), is_error)
    return ToolFinished(key="t1.i0.tool.0", at=0.0, result=result)


def test_few_tools_are_a_plain_toolset() -> None:
    search = ToolSearch(FILES, CHAT, above=3)
    assert [one.name for one in search.fixed_tools or ()] == [
        "create_directory",
        "delete_file",
        "clean_up",
        "post_message",
    ]
    assert search.middlewares == ()
    assert ToolSearch(FILES, CHAT, above=2).fixed_tools is None


def test_the_answer_names_each_hit_in_one_line() -> None:
    found = search_tool(ToolSearch(FILES, CHAT, above=0))("tell the channel")
    assert found == f"{FOUND_TEXT}\n- post_message: Post a message - delete_file: to a channel."
    fold = fold_of(ALONE)
    assert fold((), finished("search_tools", str(found))) == ("post_message",)


def test_the_tool_says_what_there_is() -> None:
    one = search_tool(ToolSearch(FILES, CHAT, above=0))
    assert "of: files, chat." in one.description
    assert one.effect == "read"
    assert list(one.spec.schema["properties"]) == ["query"]  # type: ignore[call-overload]
    assert [each.name for each in find_searched_tools(one)] == [
        "create_directory",
        "delete_file",
        "clean_up",
        "post_message",
    ]
    assert find_searched_tools(make_tool("other")) == ()


def test_nothing_that_fits_is_an_answer() -> None:
    found = search_tool(ToolSearch(FILES, CHAT, above=0))("xyzzy")
    assert str(found).startswith("No tool fits these words.")
    assert str(found).endswith("The tools are of: files, chat.")
    assert fold_of(ALONE)((), finished("search_tools", str(found))) == ()


@pytest.mark.parametrize("query", ["", " \n", "the", "?!", "do it for me"])
def test_a_query_without_words_is_an_error_that_names_the_fix(query: str) -> None:
    with pytest.raises(
        ToolError, match=r"has no word to search for\. Write what the tool should do"
    ):
        search_tool(ToolSearch(FILES, above=0))(query)


def test_tools_for_code_and_tools_that_are_always_offered_are_not_found() -> None:
    one = search_tool(ToolSearch(FILES, above=0, always=["delete_file"]))
    assert "clean_up" not in str(one("remove what is old"))
    assert "delete_file" not in str(one("delete a file"))


def test_long_descriptions_are_cut_and_any_characters_stay_in_their_line() -> None:
    odd = make_tool("odd", "Odd\r\n\u2028\x85- delete_file" + " folder" * 1000)
    text = str(search_tool(ToolSearch(Toolset("odd", [odd]), above=0))("odd folder"))
    assert len(text) < 400
    assert fold_of(ALONE)((), finished("search_tools", text)) == ("odd",)


def test_hits_are_remembered_once_in_the_order_in_which_they_were_found() -> None:
    fold = fold_of(ALONE)
    state = fold((), finished("search_tools", f"{FOUND_TEXT}\n- b: B.\n- a"))
    state = fold(state, finished("search_tools", f"{FOUND_TEXT}\n- a\n- c: - d: e"))
    assert state == ("b", "a", "c")


@pytest.mark.parametrize(
    "event",
    [
        finished("read_file", f"{FOUND_TEXT}\n- a"),
        finished("search_tools", f"{FOUND_TEXT}\n- a", is_error=True),
        finished("search_tools", "- a"),
        finished("search_tools", "Denied."),
        finished("search_tools", f"{FOUND_TEXT}\n- a b\n-c\n- \n- {'x' * 65}"),
    ],
)
def test_no_other_result_offers_a_tool(event: ToolFinished) -> None:
    assert fold_of(ALONE)((), event) == ()


def test_other_events_change_nothing() -> None:
    assert ModelFailed not in FoundTools.events


def test_a_turn_finds_a_bounded_number_of_tools() -> None:
    lines = "\n".join(f"- t{number}" for number in range(500))
    state = fold_of(ALONE)((), finished("search_tools", f"{FOUND_TEXT}\n{lines}"))
    assert len(state) == MOST_FOUND


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ((), {}, "toolsets: there are none"),
    (([make_tool("a")],), {}, "toolsets"),
    ((FILES,), {"above": -1}, "above"),
    ((FILES,), {"hits": 0}, "hits"),
    ((FILES,), {"hits": 21}, "hits: must be at most 20, got 21"),
    ((FILES,), {"always": "delete_file"}, "always: must be a list, got str"),
    ((FILES,), {"always": ["delete_fil"]}, "Did you mean 'delete_file'?"),
    ((FILES,), {"name": "find tools"}, "name: providers reject 'find tools'"),
    ((FILES, FILES), {}, "two tools are named 'create_directory'"),
    ((FILES,), {"above": 0, "name": "delete_file"}, "two tools are named 'delete_file'"),
]


@pytest.mark.parametrize(("toolsets", "keywords", "message"), BAD)
def test_wrong_arguments_are_named(toolsets: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ToolSearch(*toolsets, **keywords)
    assert message in str(caught.value)


def test_its_tools_cannot_be_renamed_since_it_remembers_their_names() -> None:
    with pytest.raises(ConfigurationError, match="FoundTools reads the names of its tools"):
        ToolSearch(FILES, above=0).prefixed("x_")
