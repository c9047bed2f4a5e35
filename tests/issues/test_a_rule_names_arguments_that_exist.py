"""A rule that named an argument by its alias never matched, so that what it denied was run."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from holdfast import Agent, ToolPermission, tool
from holdfast.errors import ConfigurationError
from holdfast.middleware import Rule
from holdfast.testing import ScriptedModel


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
        Rule("other", {"anything": "x"}),
        Rule("clear"),
    ],
)
def test_other_rules_are_taken(rule: Rule) -> None:
    agent(ToolPermission(deny=[rule], default="allow"))
