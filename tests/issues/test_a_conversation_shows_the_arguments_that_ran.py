"""`holdfast sessions show` and `/save` printed the arguments of the model, also where a person had
changed them in an approval, so that what they showed had never run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.cli.terminal import holdfast

from holdfast import Agent, PermissionQuestion, SqliteJournal, ToolPermission, tool
from holdfast.cli.chat_commands import _save_conversation
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel

PAY = ToolCall("c", "pay", '{"euros": 100}')


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def make_agent(journal: Any, *replies: Any, **keywords: Any) -> Agent[str]:
    rules = ToolPermission(ask=["pay"])
    return Agent(
        ScriptedModel(*replies), tools=[pay], middleware=[rules], journal=journal, **keywords
    )


async def pay_less(agent: Agent[str], session: str, *edits: int | None) -> None:
    """Run a turn whose first questions are answered with other amounts; None leaves the amount."""
    left = list(edits)
    async with agent.stream("Pay.", session=session) as stream:
        async for item in stream:
            if isinstance(item, PermissionQuestion):
                euros = left.pop(0)
                stream.answer(item.approve(arguments=None if euros is None else {"euros": euros}))
    assert not left


def shown(messages: Any) -> list[str]:
    return [call.arguments for message in messages for call in message.calls]


async def test_only_the_edited_call_differs_although_all_have_one_id() -> None:
    from holdfast import MemoryJournal

    more = ToolCall(PAY.id, PAY.name, '{"euros": 200}')
    agent = make_agent(MemoryJournal(), [PAY, more], "Done.", PAY, "Done.")
    await pay_less(agent, "ada", None, 5)
    await pay_less(agent, "ada", None)
    history = await agent.sessions.read("ada")
    assert shown(history.messages) == ['{"euros": 100}', '{"euros": 200}', '{"euros": 100}']
    assert shown(history.as_run) == ['{"euros": 100}', '{"euros":5}', '{"euros": 100}']
    assert len(history.as_run) == len(history.messages)


async def test_the_edit_of_an_agent_used_as_a_tool_is_not_shown_at_the_call_of_that_agent() -> None:
    from holdfast import MemoryJournal

    inner = make_agent(None, PAY, "Paid.", name="clerk")
    outer = Agent(
        ScriptedModel(ToolCall("c", "clerk", '{"task": "Pay."}'), "Done."),
        tools=[inner.as_tool(description="Pays.")],
        journal=MemoryJournal(),
    )
    await pay_less(outer, "ada", 5)
    history = await outer.sessions.read("ada")
    assert history.as_run == history.messages


def test_the_commands_show_what_ran(tmp_path: Path) -> None:
    file, saved = tmp_path / "talk.db", tmp_path / "talk.md"

    async def talk() -> None:
        with SqliteJournal(file) as journal:
            agent = make_agent(journal, PAY, "Done.")
            await pay_less(agent, "ada", 5)
            await _save_conversation(_Talk(agent), str(saved))

    asyncio.run(talk())
    printed = holdfast("sessions", "show", str(file), "ada").stdout
    assert '[calls pay with {"euros":5}]' in printed
    assert "100" not in printed
    assert '`pay({"euros":5})`' in saved.read_text()
    assert "100" not in saved.read_text()


class _Talk:
    session = "ada"

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.show = self

    def print_note(self, text: str) -> None:
        assert text.startswith("saved 4 messages")
