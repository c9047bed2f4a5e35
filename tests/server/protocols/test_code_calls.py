"""User interfaces are shown the calls of code like those of a model."""

from __future__ import annotations

from tests.server.protocols.chatting import make_service, show_chunks, weather
from tests.server.protocols.test_agui_projection import show_events

from holdfast import Agent, Middleware
from holdfast.middleware import BeforeIteration, CallTools
from holdfast.testing import ScriptedModel


class Flow(Middleware):
    """Asks for the weather by code, before the model is asked."""

    async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
        return CallTools(("weather", {"city": "Porto"})) if context.is_first_iteration else None


def make_flow() -> Agent:
    return Agent(ScriptedModel("Sunny."), name="clerk", tools=[weather], middleware=[Flow()])


async def test_the_events_of_ag_ui() -> None:
    service = make_service(make_flow())
    await service.start("clerk", "Hi.", session="ada")
    events = await show_events(service)
    kinds = [event["type"] for event in events]
    assert kinds.count("TOOL_CALL_START") == kinds.count("TOOL_CALL_RESULT") == 1
    started = next(event for event in events if event["type"] == "TOOL_CALL_START")
    assert started["toolCallName"] == "weather"


async def test_the_chunks_of_vercel() -> None:
    service = make_service(make_flow())
    await service.start("clerk", "Hi.", session="ada")
    text = str(await show_chunks(service))
    assert "weather" in text
    assert "tool-output-available" in text
