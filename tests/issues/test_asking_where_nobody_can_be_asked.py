"""A hook that asked after its turn was told of an illegal event, as if the library had a bug."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ClarificationQuestion, MemoryJournal, Middleware, tool
from holdfast.core.messages import ToolCall
from holdfast.errors import MiddlewareError
from holdfast.testing import ScriptedModel


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def _ask(_self: object, context: Any) -> None:
    await context.ask(ClarificationQuestion(question="Sure?"))


async def _answer(_question: object) -> str:
    return "yes"


@pytest.mark.parametrize("on_wait", ["hold", "suspend"])
@pytest.mark.parametrize("handler", [None, _answer])
async def test_asking_in_a_hook_where_it_is_impossible_is_a_plain_error(
    on_wait: Any, handler: Any
) -> None:
    asking = type("Asking", (Middleware,), {"after_turn": _ask})()
    agent = Agent(
        ScriptedModel(ToolCall("1", "look", "{}"), "Done."),
        tools=[look],
        middleware=[asking],
        journal=MemoryJournal(),
        on_wait=on_wait,
        on_question=handler,
    )
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("Go.", session="ada")
    text = str(caught.value)
    assert "Asking.after_turn raised ConfigurationError: ask: nobody can be asked here" in text
    assert "Ask in a tool" in text
