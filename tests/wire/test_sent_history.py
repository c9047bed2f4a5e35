"""On every wire, the next message is accepted, whatever the model called and whatever the filter refused."""

from __future__ import annotations

import pytest
from tests.wire.rig import MODES, agent_for, turn

from holdfast import MemoryJournal
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.testing.emulator import Emulator
from holdfast.testing.emulator.wires.wire_registry import WIRES

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.parametrize("mode", MODES)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("browser/tabs.open", '{"url": "x"}'),
        ("browser.tabs.open", '{"url": "x"}'),
        ("weather", '{"city": "Porto"}{"city": "Porto"}'),
        ("a" * 130, "{}"),
    ],
)
async def test_a_call_that_cannot_run_does_not_end_the_session(
    wire: str, mode: str, name: str, arguments: str
) -> None:
    replies = [ToolCall("", name, arguments), "I was wrong.", "Yes."]
    async with Emulator(replies) as emulator:
        agent = agent_for(wire, emulator, journal=MemoryJournal())
        if wire == "gemini" and "}{" in arguments:
            return  # this wire cannot carry such arguments
        await turn(agent, mode, session="ana")
        result = await turn(agent, mode, session="ana")
        assert [request.problem for request in emulator.requests] == [""] * 3
    assert result.output == "Yes."
    failed = next(
        part
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    )
    assert failed.is_error
    assert failed.text.startswith(f"Error: Function '{name[:64]}' was not run: ")
