"""On every wire, the next message is accepted, whatever the model called and whatever the filter refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.wire.rig import MODES, Seen, agent_for, forecaster, turn

from holdfast import MemoryJournal
from holdfast.core.events import ResultsWithheld, ToolFinished
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.turn_history import WITHHELD_TEXT
from holdfast.testing.emulator import EmulatedRequest, Emulator, ErrorResponse
from holdfast.testing.emulator.faults import Fault
from holdfast.testing.emulator.wires.emulator_wire import WIRES

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.parametrize("mode", MODES)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("browser/tabs.open", '{"url": "x"}'),
        ("browser.tabs.open", '{"url": "x"}'),
        ("weather", '{"city": "Porto"}{"city": "Lima"}'),
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


def refuse_results(request: EmulatedRequest) -> Fault | None:
    """A filter that refuses each request with a forecast."""
    refused = any("sunny" in text for text in texts_of_results(request.messages))
    return ErrorResponse("content_filtered") if refused else None


def texts_of_results(messages: Sequence[Message]) -> list[str]:
    return [part.text for one in messages for part in one.parts if isinstance(part, ToolResult)]


async def test_results_that_the_filter_refuses_are_withheld_and_the_session_goes_on(
    wire: str, mode: str
) -> None:
    journal, seen = MemoryJournal(), Seen()
    async with Emulator(forecaster, faults=refuse_results) as emulator:
        agent = agent_for(wire, emulator, seen, journal=journal)
        result = await turn(agent, mode, seen, session="ana")
        later = await turn(agent_for(wire, emulator, journal=journal), mode, session="ana")
        count = len(emulator.requests)
    assert result.output == f"It is {WITHHELD_TEXT} and {WITHHELD_TEXT}."
    assert seen.ran == ["Porto", "Faro"]
    assert texts_of_results(result.messages) == [WITHHELD_TEXT] * 2
    assert count == 6  # of each turn: the question, the refused request, the one without results
    assert texts_of_results(later.messages) == [WITHHELD_TEXT] * 4
    events = [record.event for record in await journal.read("ana")]
    assert [event.tools for event in events if isinstance(event, ResultsWithheld)] == [
        ("weather", "weather")
    ] * 2
    kept = [event.result.text for event in events if isinstance(event, ToolFinished)]
    assert kept == ["sunny in Porto", "sunny in Faro"] * 2
