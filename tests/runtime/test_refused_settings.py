"""A wrong hook, tool, number or setting is refused when the agent is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, Limits, Middleware, ModelSettings, Timeouts
from holdfast.core.hosted_tools import split_hosted_tools
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.models import CodeExecution, WebFetch, WebSearch
from holdfast.resilience import RetryOptions
from holdfast.testing import ScriptedModel

# Hooks.


class Misspelt(Middleware):
    async def before_iteraton(self, moment: BeforeIteration) -> None: ...


class Foreign(Middleware):
    def wrap_model_call(self, request: object) -> None: ...


class Unlike(Middleware):
    async def after_everything(self) -> None: ...


class Helped(Middleware):
    before = ()
    after_how_many = 3

    def _before_all(self) -> None: ...

    def reset(self) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "problem", "fix"),
    [
        (Misspelt(), "Misspelt.before_iteraton is not a hook", "Did you mean before_iteration"),
        (Foreign(), "Foreign.wrap_model_call is not a hook", "Did you mean wrap_model"),
        (
            Unlike(),
            "Unlike.after_everything is not a hook",
            "Did you mean after_iteration? A method that is not a hook needs another name",
        ),
    ],
)
def test_a_hook_with_a_wrong_name_is_refused(wrong: Middleware, problem: str, fix: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent(ScriptedModel(), middleware=[wrong])
    assert raised.value.problem == problem
    assert fix in raised.value.fix


def test_other_methods_and_settings_may_have_any_name() -> None:
    Agent(ScriptedModel(), middleware=[Helped()])


# Tools and settings that the wire of a model does not have.

KEY: dict[str, Any] = {"api_key": "k"}


@pytest.fixture
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "k")


@pytest.mark.usefixtures("provider_keys")
def test_a_wire_without_such_tools_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent("openai:gpt-5.2", tools=[WebSearch()])
    assert caught.value.argument == "tools"
    assert "Chat Completions" in str(caught.value)
    assert "openai-responses, anthropic or gemini" in caught.value.fix


@pytest.mark.usefixtures("provider_keys")
def test_a_fallback_without_the_tool_is_named() -> None:
    tools = [WebFetch()]
    Agent("anthropic:claude-sonnet-4-5", fallback=["gemini:gemini-3-pro"], tools=tools)
    with pytest.raises(ConfigurationError, match=r"openai-responses:gpt-5\.2: the Responses wire"):
        Agent("anthropic:claude-sonnet-4-5", fallback=["openai-responses:gpt-5.2"], tools=tools)


@pytest.mark.usefixtures("provider_keys")
def test_a_fallback_that_cannot_express_a_setting_is_named() -> None:
    settings = ModelSettings(reasoning_tokens=4000)
    Agent("anthropic:claude-sonnet-4-5", settings=settings)
    with pytest.raises(ConfigurationError, match=r"openai:gpt-5\.2: .*no thinking budget"):
        Agent("anthropic:claude-sonnet-4-5", fallback=["openai:gpt-5.2"], settings=settings)


@pytest.mark.usefixtures("provider_keys")
def test_a_tool_that_a_hook_may_add_can_be_chosen() -> None:
    Agent("anthropic:claude-sonnet-4-5", settings=ModelSettings(tool_choice="later"))


def test_the_class_is_not_the_tool() -> None:
    with pytest.raises(ConfigurationError, match=r"Write WebSearch\(\)"):
        split_hosted_tools([WebSearch])


def test_one_tool_is_given_once() -> None:
    with pytest.raises(ConfigurationError, match="two of them are WebSearch"):
        split_hosted_tools([WebSearch(), WebSearch(max_uses=2)])


@pytest.mark.usefixtures("provider_keys")
def test_an_agent_without_such_tools_has_none() -> None:
    assert split_hosted_tools([print_city]) == ((print_city,), ())
    assert split_hosted_tools([print_city, CodeExecution()])[0] == (print_city,)
    assert Agent("openai:gpt-5.2", timeouts=Timeouts())


def print_city(city: str) -> None:
    """Print a city."""


# Numbers that nothing can hold.

HUGE = 10**400


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Limits, "seconds"),
        (Limits, "iterations"),
        (ModelSettings, "temperature"),
        (ModelSettings, "seed"),
        (RetryOptions, "retry_delay"),
    ],
)
@pytest.mark.parametrize("number", [HUGE, 10**10_000], ids=["long", "too_long_to_print"])
def test_a_huge_number_is_refused_by_its_name(kind: Any, field: str, number: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"\.{field}: .* a number of \d+ bits"):
        kind(**{field: number})


def test_a_huge_number_is_refused_by_the_agent() -> None:
    with pytest.raises(ConfigurationError, match="tool_timeout"):
        Agent(ScriptedModel("Hi"), tool_timeout=HUGE)


# A journal that is missing.

ACTS: dict[str, Callable[[Agent[str]], Awaitable[object]]] = {
    "submit the turn to": lambda agent: agent.submit("Hi."),
    "resume from": lambda agent: agent.resume("ada"),
    "recover from": lambda agent: agent.recover(),
    "save the batch in": lambda agent: agent.map(["Hi."], name="n"),
}


@pytest.mark.parametrize("words", ACTS)
async def test_an_agent_without_a_journal_names_its_use(words: str) -> None:
    agent = Agent(ScriptedModel("Hello."))
    with pytest.raises(ConfigurationError) as raised:
        await ACTS[words](agent)
    assert str(raised.value) == f"journal: there is none to {words}. Pass journal= to the Agent"
