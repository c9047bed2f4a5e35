"""A turn may begin with the end of a history that began elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Status
from holdfast.core.messages import Message, Text, ToolCall, ToolResult, tool_results, user
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CALL = Message("assistant", (ToolCall("x", "look", "{}"),))
RESULTS = tool_results([ToolResult("x", "look", (Text("nothing"),))])
SYSTEM = Message("system", (Text("Be brief."),))


@pytest.mark.parametrize(
    ("history", "message"), [([user("Hi"), CALL], RESULTS), ([user("Hi")], SYSTEM), ([], SYSTEM)]
)
async def test_a_turn_begins_without_a_message_of_the_user(
    history: list[Message], message: Message, tmp_path: Path
) -> None:
    model = ScriptedModel("One.", "Two.", "Three.")
    agent = Agent(model, name="a", journal=f"sqlite:///{tmp_path / 'talk.db'}")
    result = await agent.run(message, history=history, session="s")
    assert (result.status, result.text) == (Status.COMPLETED, "One.")
    assert [one.role for one in model.requests[0].messages] == [
        *(one.role for one in history),
        message.role,
    ]
    assert (await agent.run("And?", session="s")).text == "Two."
    again = Agent(model, name="a", journal=agent._engine.journal)
    assert (await again.run("And then?", session="s")).text == "Three."
    sent = model.requests[-1].messages
    roles = [one.role for one in history]
    assert [one.role for one in sent] == [*roles, message.role, *["assistant", "user"] * 2]


@pytest.mark.parametrize("message", [Message("assistant", (Text("Hi"),)), Message("user", ())])
async def test_another_beginning_is_refused(message: Message) -> None:
    agent = Agent(ScriptedModel("never"), name="a")
    with pytest.raises(ConfigurationError, match="prompt: must be a message of the user"):
        await agent.run(message)
