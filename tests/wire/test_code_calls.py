"""Calls that code made go to every wire as ordinary calls with their results."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.rig import MODES, agent_for, turn

from holdfast import Middleware, ModelSettings, tool
from holdfast.middleware import BeforeIteration, CallTools
from holdfast.testing.emulator import EmulatedRequest, Emulator, call
from holdfast.testing.emulator.wires.emulator_wire import WIRES

pytestmark = [pytest.mark.parametrize("wire", WIRES), pytest.mark.parametrize("mode", MODES)]


@tool(effect="idempotent", offered=False)
async def send_link(to: str) -> str:
    """Send the link."""
    return f"sent to {to}"


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "the sea"


class Flow(Middleware):
    """Calls two tools by code in each iteration of these numbers."""

    def __init__(self, *iterations: int) -> None:
        self.iterations = iterations

    async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
        if context.iteration not in self.iterations:
            return None
        return CallTools(("send_link", {"to": "Ada"}), ("send_link", {"to": "Bob"}))


def shown(request: EmulatedRequest) -> list[tuple[str, str]]:
    return [(one.name, one.text) for message in request.messages for one in results(message)]


def results(message: Any) -> list[Any]:
    return [part for part in message.parts if hasattr(part, "call_id")]


@pytest.mark.parametrize("effort", [None, "high"], ids=["plain", "thinking"])
async def test_a_provider_accepts_the_calls_before_and_after_its_own(
    wire: str, mode: str, effort: Any
) -> None:
    seen: list[list[tuple[str, str]]] = []

    def answer(request: EmulatedRequest) -> Any:
        seen.append(shown(request))
        return call("look", {}) if len(seen) == 1 else "Done."

    async with Emulator(answer) as emulator:
        settings = ModelSettings(reasoning_effort=effort)
        given = {"tools": [send_link, look], "middleware": [Flow(0, 2)], "settings": settings}
        agent = agent_for(wire, emulator, **given)
        result = await turn(agent, mode)
        statuses = [request.status for request in emulator.requests]
    assert result.output == "Done."
    assert statuses == [200, 200]
    pair = [("send_link", "sent to Ada"), ("send_link", "sent to Bob")]
    assert seen == [pair, [*pair, ("look", "the sea"), *pair]]
