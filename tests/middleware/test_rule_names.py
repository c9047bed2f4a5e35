"""A rule names tools and arguments that exist: one that never matches would let run what it denies."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from holdfast import Agent, Middleware, ToolCall, ToolPermission, tool
from holdfast.errors import ConfigurationError
from holdfast.events import PermissionRuleUnmatched
from holdfast.middleware import Rule, Stop
from holdfast.testing import ScriptedModel
from holdfast.tools import Toolset


@tool(effect="write")
def clear(path: str, recursive: Annotated[bool, Field(alias="r")] = False) -> str:
    """Remove a folder."""
    return "cleared"


@tool(effect="write")
def look(path: str, _at: str = "") -> str:
    """Look into a folder."""
    return "seen"


@tool(effect="read")
def rate(r: int) -> str:
    """Rate."""
    return "rated"


def agent(rules: ToolPermission, *tools: Any) -> Agent[str]:
    return Agent(ScriptedModel(), tools=tools or [clear, look], middleware=[rules])


@pytest.mark.parametrize("permission", ["deny", "ask", "allow"])
@pytest.mark.parametrize("pattern", ["clear", "c*", "*"])
@pytest.mark.parametrize("name", ["r", "recursiv"])
def test_a_rule_that_would_never_match_is_refused(permission: str, pattern: str, name: str) -> None:
    rules = ToolPermission(**{permission: [Rule(pattern, {name: "true"})]})
    with pytest.raises(ConfigurationError) as caught:
        agent(rules)
    text = str(caught.value)
    assert text.startswith(f'{permission}: "{pattern}({name}=true)" would not match a call of')
    assert "Use the names of its parameters: path, recursive" in text


def test_an_alias_is_refused_even_if_another_tool_has_such_a_parameter() -> None:
    rules = ToolPermission(deny=[Rule("*", {"r": "true"})])
    with pytest.raises(ConfigurationError, match="'r' is an alias of this tool"):
        agent(rules, clear, rate)


def test_a_rule_is_checked_against_the_tools_of_agents() -> None:
    inner = Agent(ScriptedModel(), name="inner", tools=[clear])
    rules = ToolPermission(deny=[Rule("clear", {"r": "true"})])
    with pytest.raises(ConfigurationError, match="is an alias"):
        agent(rules, inner.as_tool())


@pytest.mark.parametrize(
    "rule",
    [
        Rule("clear", {"recursive": "true"}),
        Rule("*", {"recursive": "true"}),
        Rule("look", {"_at": "x"}),
        Rule("other*", {"anything": "x"}),
        Rule("clear"),
    ],
)
def test_other_rules_are_taken(rule: Rule) -> None:
    agent(ToolPermission(deny=[rule], default="allow"))


@tool(effect="write")
def delete_file(path: str) -> str:
    """Delete a file."""
    return "deleted"


@pytest.mark.parametrize("permission", ["deny", "ask", "allow"])
def test_a_rule_for_a_tool_that_does_not_exist_is_refused_and_names_the_near_one(
    permission: str,
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        agent(ToolPermission(**{permission: ["delete_fil"]}), delete_file)
    assert caught.value.argument == permission
    assert "the agent has no tool 'delete_fil'" in caught.value.problem
    assert "Did you mean delete_file?" in caught.value.fix
    assert '"delete_fil*"' in caught.value.fix


def test_a_rule_that_asks_or_denies_must_have_a_tool_and_one_that_allows_may_wait_for_it() -> None:
    # Callers of a service bring tools such as this one with each message.
    agent(ToolPermission(allow=["locate"]), delete_file)
    for permission in ("ask", "deny"):
        with pytest.raises(ConfigurationError, match=r"Did you mean delete_file\?"):
            agent(ToolPermission(**{permission: ["locate"]}), delete_file)


def test_a_rule_may_name_a_tool_of_an_agent_that_is_a_tool() -> None:
    inner = Agent(ScriptedModel(), name="inner", tools=[delete_file])
    agent(ToolPermission(deny=["delete_file"], default="allow"), inner.as_tool())
    with pytest.raises(ConfigurationError, match="delete_fil"):
        agent(ToolPermission(deny=["delete_fil"]), inner.as_tool())


async def test_a_rule_for_tools_that_a_run_brings_is_judged_when_the_run_begins() -> None:
    rules = ToolPermission(deny=["delete_fil"], default="allow")
    empty = Agent(ScriptedModel("hi"), middleware=[rules])  # its tools come with each run
    with pytest.raises(ConfigurationError, match="Did you mean delete_file"):
        await empty.run("Delete it.", tools=[delete_file])


async def _unmatched(agent: Agent[str]) -> list[tuple[str, str, str]]:
    async with agent.stream("Go on.") as stream:
        return [
            (item.permission, item.rule, item.near)
            async for item in stream
            if isinstance(item, PermissionRuleUnmatched)
        ]


async def test_a_rule_for_tools_of_a_toolset_is_told_of_when_it_never_matched() -> None:
    listed = Toolset("files", lambda context: [delete_file] if context.iteration else [look])
    rules = ToolPermission(deny=["delete_fil"], allow=["look", "delete_file"])
    first = ToolCall("c1", "look", '{"path": "."}')
    called = Agent(ScriptedModel([first], "done"), toolsets=[listed], middleware=[rules])
    # `look` was offered in the first iteration and `delete_file` in the second one.
    assert await _unmatched(called) == [("deny", "delete_fil", "delete_file")]


async def test_nothing_is_told_of_a_turn_that_called_no_model() -> None:
    class Closed(Middleware[None]):
        async def before_turn(self, context: Any) -> Stop:
            return Stop("closed", "We are closed.")

    listed = Toolset("files", lambda context: [look])
    rules = ToolPermission(deny=["delete_fil"])
    stopped = Agent(ScriptedModel(), toolsets=[listed], middleware=[rules, Closed()])
    assert await _unmatched(stopped) == []
