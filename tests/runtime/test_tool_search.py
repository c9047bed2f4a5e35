"""A turn with many tools: what is offered when, and what is left of it after a crash."""

from __future__ import annotations

import contextlib
from itertools import product
from typing import Any

import pytest

from holdfast import Agent, Limits, MemoryJournal, Status, ToolPermission, tool
from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError, LimitError
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.core.notices import PermissionRuleUnmatched
from holdfast.core.questions import PermissionQuestion
from holdfast.middleware import RepetitionGuard, Rule
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools import Tool, ToolSearch, Toolset, ToolsetContext
from holdfast.tools.tool_search import FULL_TEXT, MOST_FOUND


def make_tool(name: str, description: str, effect: Any = "read") -> Tool:
    def function(value: str = "") -> str:
        return f"{name} {value}".strip()

    return tool(name=name, description=description, effect=effect)(function)


TOOLS = [
    make_tool("create_directory", "Create a directory.", "write"),
    make_tool("delete_file", "Delete a file.", "write"),
    make_tool("read_file", "Read a file."),
    make_tool("post_message", "Post a message to a channel.", "write"),
]
FILES = Toolset("files", TOOLS)


@tool(effect="read")
def clock() -> str:
    """Tell the time."""
    return "noon"


def search(query: str, call_id: str = "s") -> ToolCall:
    return ToolCall(call_id, "search_tools", f'{{"query": "{query}"}}')


FOLDER = search("make a folder")
CREATE = ToolCall("c", "create_directory", '{"value": "a"}')
ALONE = ToolSearch(FILES, above=0, hits=1)


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


def texts(journaled: Any) -> list[str]:
    found = [one.event for one in journaled if isinstance(one.event, ToolFinished)]
    return [one.result.text for one in sorted(found, key=lambda one: one.key)]


async def test_hits_are_offered_from_the_next_iteration_until_the_turn_ends() -> None:
    model = ScriptedModel(FOLDER, CREATE, search("remove a file"), "done", "again")
    agent = Agent(model, tools=[clock], toolsets=[ALONE])
    result = await agent.run("Hi", session="s")
    assert result.output == "done"
    first = ["clock", "search_tools"]
    assert offered(model) == [
        first,
        [*first, "create_directory"],
        [*first, "create_directory"],
        [*first, "create_directory", "delete_file"],
    ]
    await agent.run("Hi", session="s")
    assert offered(model)[-1] == first


async def test_hits_come_after_the_tools_of_other_toolsets() -> None:
    later = Toolset("later", [clock]).filtered(lambda *_: True)
    model = ScriptedModel(FOLDER, "done")
    await Agent(model, toolsets=[ALONE, later]).run("Hi")
    assert offered(model)[1] == ["search_tools", "clock", "create_directory"]


async def test_specifications_that_do_not_change_stay_the_same_objects() -> None:
    model = ScriptedModel(FOLDER, CREATE, CREATE, "done")
    await Agent(model, toolsets=[ALONE]).run("Hi")
    tools = [request.tools for request in model.requests]
    assert tools[0][0] is tools[1][0]
    assert tools[1] is tools[2] is tools[3]


async def test_a_search_that_is_repeated_offers_nothing_twice() -> None:
    model = ScriptedModel(FOLDER, FOLDER, [FOLDER, search("make a folder", "t")], "done")
    await Agent(model, toolsets=[ALONE]).run("Hi")
    assert offered(model)[1:] == [["search_tools", "create_directory"]] * 3
    model = ScriptedModel(*[FOLDER] * 9, "done")
    agent = Agent(model, toolsets=[ALONE], middleware=[RepetitionGuard()])
    with contextlib.suppress(Exception):
        await agent.run("Hi")
    assert len(model.requests) < 9


async def test_a_search_that_finds_nothing_leaves_the_turn_as_it_is() -> None:
    model = ScriptedModel(search("xyzzy"), search(""), "done")
    journal = MemoryJournal()
    await Agent(model, toolsets=[ALONE], journal=journal).run("Hi", session="s")
    assert offered(model) == [["search_tools"]] * 3
    nothing, empty = texts(await journal.read("s"))
    assert nothing.startswith("No tool fits these words.")
    assert "The query has no word to search for." in empty


async def test_a_huge_query_and_words_of_any_language_are_answered() -> None:
    queries = [
        "folder " * 100_000,
        "ordner erstellen",
        "创建文件夹",
        "créer",
        "🦀",
        "\\u0000 \\ud800",
    ]
    model = ScriptedModel(*map(search, queries), "done")
    assert (await Agent(model, toolsets=[ALONE]).run("Hi")).output == "done"


async def test_arguments_of_a_search_are_validated_like_any_others() -> None:
    model = ScriptedModel(ToolCall("s", "search_tools", '{"query": 7}'), "done")
    result = await Agent(model, toolsets=[ALONE]).run("Hi")
    assert "its arguments are invalid" in result.messages[2].parts[0].text  # type: ignore[union-attr]


async def test_a_tool_that_was_not_offered_is_unknown() -> None:
    model = ScriptedModel(CREATE, ToolCall("x", "search_tool", "{}"), "done")
    result = await Agent(model, toolsets=[ALONE]).run("Hi")
    assert "there is no such function" in result.messages[2].parts[0].text  # type: ignore[union-attr]
    assert "Did you mean 'search_tools'?" in result.messages[4].parts[0].text  # type: ignore[union-attr]


async def test_a_hit_of_the_same_reply_is_unknown() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([FOLDER, CREATE], CREATE, "done")
    await Agent(model, toolsets=[ALONE], journal=journal).run("Hi", session="s")
    found, unknown, created = texts(await journal.read("s"))
    assert "- create_directory: Create a directory." in found
    assert "there is no such function" in unknown
    assert created == "create_directory a"


async def test_a_turn_stops_finding_tools_before_a_provider_refuses_their_number() -> None:
    names = ["".join(pair) for pair in product("bcdfghjklm", "npqrstvwxz")]
    many = Toolset("many", [make_tool(name, "") for name in names])
    queries = [search(" ".join(names[at : at + 20]), str(at)) for at in range(0, 100, 20)]
    model = ScriptedModel(*queries, "done")
    journal = MemoryJournal()
    await Agent(model, toolsets=[ToolSearch(many, hits=20)], journal=journal).run("Hi", session="s")
    assert max(map(len, offered(model))) == MOST_FOUND + 1
    assert any(FULL_TEXT in text for text in texts(await journal.read("s")))


# --- what holds for any tool holds for one that was found


async def test_a_person_is_asked_about_a_tool_that_was_found() -> None:
    permission = ToolPermission(allow=["search_tools"], ask=["create_directory"], default="deny")
    journal = MemoryJournal()
    agent = Agent(
        ScriptedModel(FOLDER, CREATE),
        toolsets=[ALONE],
        middleware=[permission],
        on_wait="suspend",
        journal=journal,
    )
    assert (await agent.run("Hi", session="s")).status is Status.WAITING
    model = ScriptedModel("done")
    later = Agent(model, toolsets=[ALONE], middleware=[permission], journal=journal)
    (question,) = await later.questions("s")
    assert isinstance(question, PermissionQuestion)
    assert await later.answer("s", question.approve())
    assert (await later.resume("s")).output == "done"
    assert offered(model) == [["search_tools", "create_directory"]]
    assert texts(await journal.read("s"))[-1] == "create_directory a"


async def test_a_rule_with_a_wrong_name_or_argument_is_refused_when_the_agent_is_made() -> None:
    for rule, message in (
        ("create_directry", "Did you mean create_directory?"),
        (Rule("delete_file", {"path": "x"}), "no parameter of this tool"),
    ):
        with pytest.raises(ConfigurationError, match=message.replace("?", r"\?")):
            Agent(
                ScriptedModel("no"),
                toolsets=[ALONE],
                middleware=[ToolPermission(deny=[rule], default="allow")],  # type: ignore[list-item]
            )


async def test_a_rule_about_a_tool_that_was_not_found_is_no_mistake() -> None:
    seen: list[Any] = []
    searched = ToolSearch(Toolset("listed", lambda _: TOOLS), above=0, hits=1)
    agent = Agent(
        ScriptedModel(FOLDER, "done"),
        toolsets=[searched],
        middleware=[ToolPermission(deny=["delete_file", "delete_files"], default="allow")],
        observers=[seen.append],
    )
    await agent.run("Hi")
    notices = [one.item for one in seen if isinstance(one.item, PermissionRuleUnmatched)]
    assert [one.rule for one in notices] == ["delete_files"]


async def test_a_search_counts_as_a_tool_call() -> None:
    agent = Agent(
        ScriptedModel(FOLDER, CREATE, "no"), toolsets=[ALONE], limits=Limits(tool_calls=1)
    )
    with pytest.raises(LimitError):
        await agent.run("Hi")


async def test_a_subagent_is_found_like_any_other_tool() -> None:
    inner = Agent(ScriptedModel(FOLDER, CREATE, "inner done"), name="archivist", toolsets=[ALONE])
    team = ToolSearch(Toolset("team", [inner.as_tool(description="Archives files.")]), above=0)
    model = ScriptedModel(
        search("put this into the archive"), ToolCall("a", "archivist", '{"task": "go"}'), "done"
    )
    result = await Agent(model, toolsets=[team]).run("Hi")
    assert result.messages[4].parts[0].text == "inner done"  # type: ignore[union-attr]


async def test_client_tools_are_offered_without_a_search() -> None:
    model = ScriptedModel("done")
    agent = Agent(model, tools=[ClientTool("get_location", "Where the user is.")], toolsets=[ALONE])
    await agent.run("Hi")
    assert offered(model) == [["get_location", "search_tools"]]


async def test_some_tools_are_always_offered() -> None:
    model = ScriptedModel(FOLDER, "done")
    both = ToolSearch(FILES, above=0, hits=1, always=["read_file"])
    await Agent(model, toolsets=[both]).run("Hi")
    assert offered(model) == [
        ["read_file", "search_tools"],
        ["read_file", "search_tools", "create_directory"],
    ]


async def test_tools_that_a_function_lists_are_searched_as_they_are_listed() -> None:
    def list_tools(context: ToolsetContext[str]) -> list[Tool]:
        return TOOLS if context.deps == "admin" else TOOLS[1:]

    listed = ToolSearch(Toolset("listed", list_tools), above=0, hits=1)
    model = ScriptedModel(FOLDER, "done", FOLDER, "done")
    agent = Agent(model, toolsets=[listed], deps_type=str)
    await agent.run("Hi", deps="guest")
    await agent.run("Hi", deps="admin")
    assert "create_directory" not in str(offered(model)[:2])
    assert offered(model)[3] == ["search_tools", "create_directory"]


async def test_a_list_that_becomes_short_is_offered_as_it_is() -> None:
    def list_tools(context: ToolsetContext) -> list[Tool]:
        return TOOLS[: 4 - 2 * context.iteration]

    model = ScriptedModel(FOLDER, "done")
    await Agent(model, toolsets=[ToolSearch(Toolset("l", list_tools), above=2)]).run("Hi")
    assert offered(model)[0] == ["search_tools"]
    assert sorted(offered(model)[1]) == ["create_directory", "delete_file"]


async def test_a_run_may_have_a_search_of_its_own() -> None:
    model = ScriptedModel(FOLDER, CREATE, "done", "done")
    agent = Agent(model, tools=[clock])
    await agent.run("Hi", toolsets=[ALONE])
    await agent.run("Hi")
    assert offered(model)[1] == ["clock", "search_tools", "create_directory"]
    assert offered(model)[-1] == ["clock"]


async def test_two_searches_have_two_names() -> None:
    other = ToolSearch(Toolset("time", [clock]), above=0, name="search_time")
    model = ScriptedModel(ToolCall("t", "search_time", '{"query": "time"}'), FOLDER, "done", "done")
    await Agent(model, toolsets=[other, ALONE]).run("Hi")
    assert offered(model)[2] == ["search_time", "search_tools", "clock", "create_directory"]
    with pytest.raises(ConfigurationError, match="two tools are named 'search_tools'"):
        await Agent(model, toolsets=[ALONE, ToolSearch(Toolset("t", [clock]), above=0)]).run("Hi")


def test_the_description_of_an_agent_has_the_search() -> None:
    described = Agent(ScriptedModel(), toolsets=[ALONE]).describe()
    assert "listed before each model call: search_tools" in described
    assert "FoundTools" in described


async def test_turns_at_once_find_their_own_tools() -> None:
    import asyncio

    models = [ScriptedModel(search(query), "done") for query in ("make a folder", "delete a file")]
    await asyncio.gather(*(Agent(one, toolsets=[ALONE]).run("Hi") for one in models))
    assert [offered(one)[1][1] for one in models] == ["create_directory", "delete_file"]


# --- after a crash


def answer(request: Any) -> Any:
    said = sum(message.role == "assistant" for message in request.messages)
    return [FOLDER, CREATE, [search("delete a file"), CREATE], "done"][said]


@pytest.mark.parametrize("append", range(1, 13))
@pytest.mark.parametrize("before", [False, True])
async def test_the_same_tools_are_offered_after_every_crash(append: int, before: bool) -> None:
    def make(journal: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(*[answer] * 9)
        made = ToolSearch(FILES, above=0, hits=1)
        return Agent(model, tools=[clock], toolsets=[made], journal=journal), model

    journal = MemoryJournal()
    agent, before_crash = make(CrashAt(journal, append, before=before))
    with contextlib.suppress(SimulatedCrash):
        await agent.run("Hi", session="s")
    if not await journal.read("s"):
        return
    agent, after_crash = make(journal)
    result = await agent.resume("s")
    assert result.output == "done"
    first = ["clock", "search_tools"]
    expected = [first, [*first, "create_directory"], [*first, "create_directory"]]
    expected.append([*first, "create_directory", "delete_file"])
    lists: dict[int, list[str]] = {}
    for request in (*before_crash.requests, *after_crash.requests):
        said = sum(message.role == "assistant" for message in request.messages)
        lists[said] = [one.name for one in request.tools]
    assert lists == dict(enumerate(expected))
    saved = [one.event for one in await journal.read("s") if isinstance(one.event, ModelReplied)]
    assert [list(one.offered or ()) for one in saved[:3]] == expected[:3]


async def test_a_tool_that_was_found_and_is_gone_is_not_offered() -> None:
    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel(FOLDER, CREATE), toolsets=[ALONE], journal=CrashAt(journal, 5)
        ).run("Hi", session="s")
    fewer = ToolSearch(Toolset("files", TOOLS[1:]), above=0)
    model = ScriptedModel("done")
    await Agent(model, toolsets=[fewer], journal=journal).resume("s")
    assert offered(model)[-1] == ["search_tools"]
