"""Each keyword of `Agent` is declared once: the signature, the record and the texts agree."""

from __future__ import annotations

import copy
import inspect
import re
from typing import Any

import pytest
from docstring_parser import parse

from holdfast import Agent, MemoryJournal
from holdfast.agent_file.load_agent import find_keyword_forms
from holdfast.core.errors import ConfigurationError
from holdfast.runtime.compile import AgentKeywords
from holdfast.testing import ScriptedModel

SIGNATURE = inspect.signature(Agent).parameters
NOT_IN_FILES = {
    "api_key": "a secret; api_key_env names its variable",
    "transport": "an object of a program",
    "clock": "for tests",
    "rng": "for tests",
}


def test_the_record_and_the_signature_have_the_same_names_and_types() -> None:
    # Only the signature can connect the types of the output and of the deps with the agent.
    declared = {
        name: re.sub(r"\b(T|D_contra)\b", "Any", one.annotation) for name, one in SIGNATURE.items()
    }
    record = {name: kind.__forward_arg__ for name, kind in AgentKeywords.__annotations__.items()}
    assert list(declared.items()) == list(record.items())


def test_each_keyword_is_described_once_in_the_order_of_the_signature() -> None:
    described = parse(Agent.__doc__ or "").params
    assert [one.arg_name for one in described] == list(SIGNATURE)
    assert all(one.description for one in described)


def test_every_keyword_can_be_in_a_file_or_has_a_reason_not_to_be() -> None:
    assert find_keyword_forms().keys() == SIGNATURE.keys() - NOT_IN_FILES


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("tool", "Write @tool from holdfast, and Agent(..., tools=[...])"),
        ("run_stream", "Write agent.stream(...)"),
        ("run_snyc", "'Agent' has no attribute 'run_snyc'"),
    ],
)
def test_an_attribute_of_another_framework_on_an_agent_names_ours(name: str, fix: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(Agent(ScriptedModel()), name)
    assert fix in str(caught.value)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("data", "Write result.output"),
        ("all_messages", "Write result.messages"),
        ("zzz", "'Result' has no attribute 'zzz'"),
    ],
)
def test_an_attribute_of_another_framework_on_a_result_names_ours(name: str, fix: str) -> None:
    result = Agent(ScriptedModel("hi")).run_sync("Hello")
    with pytest.raises(AttributeError) as caught:
        getattr(result, name)
    assert fix in str(caught.value)
    assert copy.copy(result) == result  # which asks for attributes that it does not have
    assert not hasattr(result, name)


# A keyword that an agent or a run does not have names the place where it belongs, before anything
# is sent.

SETTING = ", but a setting of the model. Write settings=ModelSettings"
RUNS: list[tuple[str, str]] = [
    ("temperature", f"temperature: is not an argument of Agent.run{SETTING}(temperature=...)"),
    ("max_output_tokens", f"is not an argument of Agent.run{SETTING}(max_tokens=...)"),
    ("max_turns", "; limits has it. Write limits=Limits(iterations=...)"),
    ("connect", "; timeouts has it. Write Agent(..., timeouts=Timeouts(connect=...))"),
    ("system_prompt", "Agent.run. Write instructions=..."),
    ("retry", ", but of Agent. Write Agent(..., retry=...)"),
    ("model_settings", "Agent.run. Write settings=..."),
    ("message_history", "Agent.run. Write history=..."),
    ("output_type", "Agent.run. Write output=..."),
    ("usage_limits", "Agent.run. Write limits=..."),
    ("sesion", "Agent.run. Did you mean session?"),
    ("metdata", "Agent.run. Did you mean metadata?"),
    (
        "zzz",
        "Agent.run. It has by, deps, history, instructions, limits, metadata, model, output, request",
    ),
]


@pytest.mark.parametrize(("keyword", "message"), RUNS)
async def test_a_wrong_keyword_of_a_run_names_the_right_one(keyword: str, message: str) -> None:
    model = ScriptedModel()
    given: dict[str, Any] = {keyword: 1}
    for start in (Agent(model).run, Agent(model).run_sync, Agent(model).stream):
        with pytest.raises(ConfigurationError) as caught:
            await start("Hi", **given)  # type: ignore[misc]
        assert message in str(caught.value)
        assert caught.value.argument == keyword
    assert model.requests == []


AGENTS: list[tuple[str, str]] = [
    ("temperature", f"temperature: is not an argument of Agent{SETTING}(temperature=...)"),
    ("max_iterations", "; limits has it. Write limits=Limits(iterations=...)"),
    ("session", ", but of a run. Write agent.run(..., session=...)"),
    ("metadata", ", but of a run. Write agent.run(..., metadata=...)"),
    ("system_prompt", "Agent. Write instructions=..."),
    ("fallbacks", "Agent. Did you mean fallback?"),
]


@pytest.mark.parametrize(("keyword", "message"), AGENTS)
def test_a_wrong_keyword_of_an_agent_names_the_right_one(keyword: str, message: str) -> None:
    given: dict[str, Any] = {keyword: 1}
    with pytest.raises(ConfigurationError) as caught:
        Agent(ScriptedModel(), **given)
    assert message in str(caught.value)


SAVED = "; it is saved with the turn. Leave it out"


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("settings", SAVED),
        ("metadata", SAVED),
        ("limits", SAVED),
        ("temperature", ", but a setting of the model"),
        ("tool", "Did you mean tools?"),
    ],
)
async def test_a_wrong_keyword_of_a_continued_turn_names_the_right_one(
    keyword: str, message: str
) -> None:
    agent = Agent(ScriptedModel(), journal=MemoryJournal())
    given: dict[str, Any] = {keyword: 1}
    for continuing in (agent.resume, agent.resume_stream):
        with pytest.raises(ConfigurationError) as caught:
            await continuing("s", **given)  # type: ignore[misc]
        assert message in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        await agent.recover(**given)
    assert message in str(caught.value)
