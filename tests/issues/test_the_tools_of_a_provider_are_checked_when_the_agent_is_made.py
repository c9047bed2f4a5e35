"""A tool or a setting that a model's wire does not have is an error of the agent, before any run."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, ModelSettings, Timeouts
from holdfast.core.hosted_tools import split_hosted_tools
from holdfast.models import CodeExecution, WebFetch, WebSearch

KEY: dict[str, Any] = {"api_key": "k"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "k")


def test_a_wire_without_such_tools_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent("openai:gpt-5.2", tools=[WebSearch()])
    assert caught.value.argument == "tools"
    assert "Chat Completions" in str(caught.value)
    assert "openai-responses, anthropic or gemini" in caught.value.fix


def test_a_fallback_without_the_tool_is_named() -> None:
    tools = [WebFetch()]
    Agent("anthropic:claude-sonnet-4-5", fallback=["gemini:gemini-3-pro"], tools=tools)
    with pytest.raises(ConfigurationError, match=r"openai-responses:gpt-5\.2: the Responses wire"):
        Agent("anthropic:claude-sonnet-4-5", fallback=["openai-responses:gpt-5.2"], tools=tools)


def test_a_fallback_that_cannot_express_a_setting_is_named() -> None:
    settings = ModelSettings(reasoning_tokens=4000)
    Agent("anthropic:claude-sonnet-4-5", settings=settings)
    with pytest.raises(ConfigurationError, match=r"openai:gpt-5\.2: .*no thinking budget"):
        Agent("anthropic:claude-sonnet-4-5", fallback=["openai:gpt-5.2"], settings=settings)


def test_a_tool_that_a_hook_may_add_can_be_chosen() -> None:
    Agent("anthropic:claude-sonnet-4-5", settings=ModelSettings(tool_choice="later"))


def test_the_class_is_not_the_tool() -> None:
    with pytest.raises(ConfigurationError, match=r"Write WebSearch\(\)"):
        split_hosted_tools([WebSearch])


def test_one_tool_is_given_once() -> None:
    with pytest.raises(ConfigurationError, match="two of them are WebSearch"):
        split_hosted_tools([WebSearch(), WebSearch(max_uses=2)])


def test_an_agent_without_such_tools_has_none() -> None:
    assert split_hosted_tools([print_city]) == ((print_city,), ())
    assert split_hosted_tools([print_city, CodeExecution()])[0] == (print_city,)
    assert Agent("openai:gpt-5.2", timeouts=Timeouts())


def print_city(city: str) -> None:
    """Print a city."""
