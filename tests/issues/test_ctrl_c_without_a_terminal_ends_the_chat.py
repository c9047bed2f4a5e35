"""Ctrl-C for `holdfast chat` in a pipe was lost when a turn had shown its answer and not yet ended.

It was taken for a wish to stop that turn. So was one that came earlier, and a file of a hundred
lines wanted a hundred of them.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest
from tests.cli.terminal import conversation

from holdfast import Agent, MemoryJournal
from holdfast.cli.chat_loop import ChatLoop
from holdfast.testing import ScriptedModel


class _Pipe(io.StringIO):
    """Standard output; `told` is called for each line that is whole."""

    told: Callable[[], None]

    def write(self, text: str) -> int:
        written = super().write(text)
        if "\n" in text:
            self.told()
        return written


def _chat(agent: Agent[str], lines: list[str]) -> ChatLoop:
    typed = iter(lines)

    async def read() -> str | None:
        return next(typed, None)

    return ChatLoop(conversation(agent), read, prompts=False)


async def test_after_the_answer_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = _Pipe()
    monkeypatch.setattr("sys.stdout", pipe)
    model = ScriptedModel("One.", "Two.")
    talk = _chat(Agent(model, journal=MemoryJournal()), ["one", "two"])
    pipe.told = talk._on_interrupt
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await asyncio.ensure_future(talk.run_until_end())
    assert pipe.getvalue() == "One.\n"
    assert len(model.requests) == 1


async def test_while_a_turn_is_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    begun = asyncio.Event()

    async def never(_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel(never, "Two."), journal=MemoryJournal())
    talk = _chat(agent, ["one", "two"])
    talking = asyncio.ensure_future(talk.run_until_end())
    async with asyncio.timeout(20):
        await begun.wait()
        talk._on_interrupt()
        with pytest.raises(asyncio.CancelledError):
            await talking
    assert capsys.readouterr() == ("", "")
    # The turn has its end in the journal, and the conversation can go on.
    result = await agent.run("again", session="ada")
    assert result.text == "Two."
    assert [message.text for message in result.history if message.role == "user"] == [
        "one",
        "again",
    ]
