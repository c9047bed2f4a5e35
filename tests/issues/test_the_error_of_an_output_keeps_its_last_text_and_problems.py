"""The last output and its problems were lost when the attempts for the right type were used up."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdfast import Agent, Limits, OutputError, user
from holdfast.testing import ScriptedModel


@dataclass
class Trip:
    """An answer."""

    city: str
    days: int


async def test_the_error_holds_the_text_and_every_problem() -> None:
    wrong = '{"city": 7, "days": "many"}'
    agent = Agent(ScriptedModel(wrong, wrong), output=Trip, limits=Limits(output_repairs=1))
    with pytest.raises(OutputError) as caught:
        await agent.run("Where to?")
    error = caught.value
    assert error.raw == wrong
    assert len(error.problems) == 2
    assert error.result.text == wrong
    assert error.partial is not None
    assert error.result.messages == (user("Where to?"),)
