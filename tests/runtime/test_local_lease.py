"""One driver at a time for each run in a process, also when several agents share a journal."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, ToolCall
from holdfast.errors import SessionBusyError
from holdfast.runtime.sessions.session_pool import LocalLease
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Slow:
    """A tool that waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.free = asyncio.Event(), asyncio.Event()
        self.runs = 0

    def tool(self) -> Any:
        @tool(effect="write")
        async def pay() -> str:
            """Pay."""
            self.runs += 1
            self.begun.set()
            await self.free.wait()
            return "paid"

        return pay


def payer(journal: MemoryJournal, slow: Slow, **options: Any) -> Agent[str]:
    model = ScriptedModel(ToolCall("a", "pay", "{}"), "Done.")
    return Agent(model, tools=[slow.tool()], journal=journal, **options)


async def history(journal: MemoryJournal, run: str) -> Sequence[Message]:
    machine = SessionMachine()
    for record in await journal.read(run):
        machine.apply(record.event)
    return list(machine.transcript)


async def test_a_turn_of_another_agent_waits_for_the_one_that_is_under_way() -> None:
    journal, slow = MemoryJournal(), Slow()
    first = asyncio.create_task(payer(journal, slow).run("Pay.", session="ada"))
    await slow.begun.wait()
    other = Agent(ScriptedModel("Hello."), journal=journal)
    second = asyncio.create_task(other.run("Hi.", session="ada"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not second.done()
    slow.free.set()
    assert [(await first).output, (await second).output] == ["Done.", "Hello."]
    said = await history(journal, "ada")
    assert [message.role for message in said] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip


async def test_another_agent_can_refuse_instead() -> None:
    journal, slow = MemoryJournal(), Slow()
    first = asyncio.create_task(payer(journal, slow).run("Pay.", session="ada"))
    await slow.begun.wait()
    other = Agent(ScriptedModel("Hello."), journal=journal, on_busy="refuse")
    with pytest.raises(SessionBusyError):
        await other.run("Hi.", session="ada")
    slow.free.set()
    assert (await first).output == "Done."
    assert (await other.run("Hi.", session="ada")).output == "Hello."


@pytest.mark.parametrize("session", ["ada", None])
async def test_what_another_agent_drives_is_not_recovered(session: str | None) -> None:
    journal, slow = MemoryJournal(), Slow()
    first = asyncio.create_task(payer(journal, slow).run("Pay.", session=session))
    await slow.begun.wait()
    assert await payer(journal, slow).recover() == []
    slow.free.set()
    assert (await first).output == "Done."
    assert slow.runs == 1


async def test_a_turn_that_was_cancelled_lets_the_session_go() -> None:
    journal, slow = MemoryJournal(), Slow()
    first = asyncio.create_task(payer(journal, slow).run("Pay.", session="ada"))
    await slow.begun.wait()
    waits = asyncio.create_task(payer(journal, slow).run("Pay.", session="ada"))
    await asyncio.sleep(0)
    for task in (waits, first):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    other = Agent(ScriptedModel("Hello."), journal=journal, on_busy="refuse")
    assert (await other.run("Hi.", session="ada")).output == "Hello."


async def test_sessions_of_different_journals_have_nothing_to_do_with_each_other() -> None:
    slow = Slow()
    first = asyncio.create_task(payer(MemoryJournal(), slow).run("Pay.", session="ada"))
    await slow.begun.wait()
    other = Agent(ScriptedModel("Hello."), journal=MemoryJournal(), on_busy="refuse")
    assert (await other.run("Hi.", session="ada")).output == "Hello."
    slow.free.set()
    await first


async def test_a_hold_that_was_thrown_away_holds_nothing() -> None:
    journal = MemoryJournal()
    hold = LocalLease(journal, "ada")
    with pytest.raises(SessionBusyError):
        LocalLease(journal, "ada")
    del hold
    gc.collect()
    again = LocalLease(journal, "ada")
    await again.release()
    third = LocalLease(journal, "ada")
    await again.release()  # it is not its own any more
    with pytest.raises(SessionBusyError):
        LocalLease(journal, "ada")
    await third.release()
