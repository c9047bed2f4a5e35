"""A program can give the words that end a stopped turn, in another language for example."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, Middleware, tool
from holdfast.core.messages import ToolCall
from holdfast.middleware import (
    ContinuationPermission,
    ErrorTracking,
    RepetitionGuard,
    TotalErrorThreshold,
)
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
def look() -> str:
    """Look."""
    raise RuntimeError("no route")


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (ErrorTracking(2, text="{count} von {max} Fehlern."), "2 von 2 Fehlern."),
        (TotalErrorThreshold(2, text="Zu viele Fehler: {count}."), "Zu viele Fehler: 2."),
        (RepetitionGuard(3, text="{tool} {count}-mal."), "look 3-mal."),
        (ContinuationPermission(1, text="Ende {hier}."), "Ende {hier}."),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_each_guard_takes_its_words(guard: Middleware[Any], words: str) -> None:
    calls = [ToolCall(str(number), "look", "{}") for number in range(9)]
    agent = Agent(ScriptedModel(*calls), tools=[look], middleware=[guard], clock=FakeClock())
    async with agent.stream("go") as run:
        shown = "".join([text async for text in run.text()])
        result = await run.wait()
    assert (shown, result.text, result.status) == (words, words, "stopped")


@pytest.mark.parametrize("text", ["{}", "{counts}", "{count:x}", "{count.real}", "{", "{count!r}"])
def test_a_wrong_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"text: must be .* \{count\} and \{max\}"):
        ErrorTracking(text=text)
