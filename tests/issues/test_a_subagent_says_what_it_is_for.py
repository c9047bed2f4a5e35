"""A calling model must know from the description of a subagent when to use it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent
from holdfast.testing import ScriptedModel

HEAD = "Give a task to the agent 'scout', and get its answer."


@pytest.mark.parametrize(
    ("instructions", "purpose"),
    [
        ("You find cheap flights. Never book one.", "You find cheap flights."),
        ("You find flights, e.g. to Porto, under 3.5 hours! Be brief.", "You find flights, e.g. to Porto, under 3.5 hours!"),
        ("# Scout\n\nYou find\nflights", "You find flights"),
        ("# Scout\nYou find flights.\n\nBe brief.", "You find flights."),
        (["", lambda: "Today is Monday.", "Find flights?\nOr trains."], "Find flights?"),
        ("航空券を探します。短く答えます。", "航空券を探します。"),
        ("", ""),
        (lambda: "You find flights.", ""),
    ],
)  # fmt: skip
def test_the_default_description_has_the_first_sentence(instructions: Any, purpose: str) -> None:
    made = Agent(ScriptedModel(), name="scout", instructions=instructions).as_tool()
    assert made.description == f"{HEAD} {purpose}".rstrip()


def test_a_long_sentence_is_cut_between_words() -> None:
    made = Agent(ScriptedModel(), name="scout", instructions="word " * 500).as_tool()
    assert made.description.endswith("word ...")
    assert len(made.description) < 400


def test_a_description_of_the_caller_is_used_as_it_is() -> None:
    agent = Agent(ScriptedModel(), name="scout", instructions="You find flights.")
    assert agent.as_tool(description="Looks ahead.").description == "Looks ahead."
