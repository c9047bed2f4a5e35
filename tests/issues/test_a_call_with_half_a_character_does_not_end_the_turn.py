"""A call whose arguments are not valid Unicode ended its turn, and in memory every later turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Agent, MemoryJournal, SqliteJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.journal.port import Journal
from holdfast.testing import ScriptedModel


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return place


@pytest.mark.parametrize("make", [lambda _: MemoryJournal(), SqliteJournal])
async def test_the_model_is_told_and_the_session_goes_on(
    tmp_path: Path, make: Callable[[Path], Journal]
) -> None:
    journal = make(tmp_path / "talk.db")
    call = ToolCall("c", "look", '{"place": "\ud83d"}')
    result = await Agent(ScriptedModel(call, "Sorry."), tools=[look], journal=journal).run(
        "Look.", session="ada"
    )
    assert "are not valid Unicode" in result.messages[-2].parts[0].text  # type: ignore[union-attr]
    again = await Agent(ScriptedModel("Hi"), tools=[look], journal=journal).run("Hi", session="ada")
    assert list(again.history)[:4] == list(result.history)
