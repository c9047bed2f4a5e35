"""Two messages to one session at once: they queue, or the second one is refused, by setting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.core.model_request import ModelRequest
from holdfast.errors import SessionBusyError
from holdfast.journal.memory import MemoryJournal
from holdfast.testing import ScriptedModel


class Slow:
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Event()
        self.prompts: list[str] = []

    def agent(self, journal: object = None, **keywords: Any) -> Agent[str]:
        async def answer(request: ModelRequest) -> str:
            self.prompts.append(request.messages[-1].text)
            self.asked.release()
            await self.go.wait()
            return "done"

        return Agent(ScriptedModel(*[answer] * 9), journal=journal, **keywords)


async def test_by_default_the_second_waits_for_the_first() -> None:
    slow = Slow()
    agent = slow.agent()
    turns = [asyncio.ensure_future(agent.run(text, session="s")) for text in ("one", "two")]
    await slow.asked.acquire()
    await asyncio.sleep(0)
    assert slow.prompts == ["one"]
    slow.go.set()
    results = [await turn for turn in turns]
    assert slow.prompts == ["one", "two"]
    assert [len(result.messages) for result in results] == [2, 4]


async def test_the_second_is_refused_when_that_is_set_and_other_sessions_are_not() -> None:
    slow = Slow()
    agent = slow.agent(MemoryJournal(), on_busy="refuse")
    first = asyncio.ensure_future(agent.run("one", session="s"))
    await slow.asked.acquire()
    with pytest.raises(SessionBusyError, match="'s' is busy") as caught:
        await agent.run("two", session="s")
    assert caught.value.session == "s"

    async def watch() -> object:
        async with agent.stream("two", session="s") as run:
            async for _ in run:
                pass
            return run.result

    with pytest.raises(SessionBusyError):
        await watch()
    with pytest.raises(SessionBusyError):
        await agent.resume("s")
    second = asyncio.ensure_future(agent.run("two", session="t"))
    await slow.asked.acquire()
    slow.go.set()
    assert (await first).output == (await second).output == "done"
    assert (await agent.run("three", session="s")).output == "done"
    assert slow.prompts == ["one", "two", "three"]


async def test_a_refused_turn_of_many_leaves_one_that_works() -> None:
    slow = Slow()
    slow.go.set()
    agent = slow.agent(on_busy="refuse")
    turns = (agent.run(f"{n}", session="s") for n in range(10))
    outcomes = await asyncio.gather(*turns, return_exceptions=True)
    assert sum(isinstance(outcome, SessionBusyError) for outcome in outcomes) == 9
    assert (await agent.run("again", session="s")).output == "done"


def test_any_other_setting_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r'on_busy: must be "queue", "refuse" or "interrupt"'
    ):
        Agent(ScriptedModel("x"), on_busy="wait")  # type: ignore[arg-type]
