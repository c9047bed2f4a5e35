"""Each keyword of `Agent` is declared once: the signature, the record and the texts agree."""

from __future__ import annotations

import copy
import inspect
import re

import pytest
from docstring_parser import parse

from holdfast import Agent
from holdfast.agent_file.file_forms import find_keyword_forms
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
