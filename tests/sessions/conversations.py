"""Sessions for tests, and the messages that a model would be sent next."""

from __future__ import annotations

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.effects import is_nested_run
from holdfast.core.messages import Message, ToolCall
from holdfast.journal.port import Journal
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is sunny"


async def talk(
    journal: Journal, clock: FakeClock, session: str, *said: str, tools: bool = False
) -> None:
    """Run one turn for each text; the model answers `re TEXT`."""
    script: list[object] = []
    for text in said:
        if tools:
            script.append(ToolCall("c", "look", '{"place": "Porto"}'))
        script.append(f"re {text}")
    # The run of a subagent is saved beside the session and is not a session.
    there = MemoryJournal() if is_nested_run(session) else journal
    agent = Agent(ScriptedModel(*script), tools=[look], journal=there, clock=clock)  # type: ignore[arg-type]
    for text in said:
        clock.advance(1)
        await agent.run(text, session="x" if is_nested_run(session) else session)
    if there is not journal:
        for record in await there.read("x"):
            await journal.append(session, record.event)


async def sent(journal: Journal, session: str) -> list[str]:
    """Return what an agent sends in the next turn of the session, without saving that turn."""
    seen: list[list[Message]] = []

    def answer(request: object) -> str:
        seen.append(list(request.messages))  # type: ignore[attr-defined]
        return "x"

    fork = await Sessions(journal).fork(session)
    await Agent(ScriptedModel(answer), tools=[look], journal=journal).run("next", session=fork)
    await Sessions(journal).delete(fork)
    return [message.text for message in seen[0][:-1]]
