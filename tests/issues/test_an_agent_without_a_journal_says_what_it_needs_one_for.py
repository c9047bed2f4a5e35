"""The error of an agent without a journal is a sentence, whatever needs the journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.testing import ScriptedModel

ACTS: dict[str, Callable[[Agent[str]], Awaitable[object]]] = {
    "submit the turn to": lambda agent: agent.submit("Hi."),
    "resume from": lambda agent: agent.resume("ada"),
    "recover from": lambda agent: agent.recover(),
    "save the batch in": lambda agent: agent.map(["Hi."], name="n"),
}


@pytest.mark.parametrize("words", ACTS)
async def test_the_error_is_a_sentence(words: str) -> None:
    agent = Agent(ScriptedModel("Hello."))
    with pytest.raises(ConfigurationError) as raised:
        await ACTS[words](agent)
    assert str(raised.value) == f"journal: there is none to {words}. Pass journal= to the Agent"
