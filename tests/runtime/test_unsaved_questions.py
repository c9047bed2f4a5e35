"""Questions and answers that meet the end of a turn, or a journal that is slow or gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.runtime.slow_journal import CALL, SlowJournal

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.core.effects import Effect
from holdfast.core.events import Event, QuestionAsked
from holdfast.core.messages import Reply, ToolCall
from holdfast.events import Observation
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.journal.port import Record
from holdfast.testing import FakeClock, ScriptedModel

# A slow journal.


@tool(effect="write")
async def ask(context: ToolContext) -> str:
    """Ask."""
    return await context.ask(ClarificationQuestion(question="Sure?"))


@tool(effect="read")
async def hang() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return "never"


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_an_answer_during_the_end_of_a_turn_is_late() -> None:
    journal = SlowJournal()
    journal.slow = False
    both = Reply((ToolCall("a", "ask", "{}"), ToolCall("b", "hang", "{}")))
    model = ScriptedModel(both, "I am back.")
    agent = Agent(model, tools=[ask, hang], journal=journal, on_wait="suspend")
    run = asyncio.create_task(agent.run("Go.", session="s"))
    await settled()
    [question] = await agent.questions("s")
    journal.slow = True
    run.cancel()
    await journal.until("t1.interrupted")
    answer = asyncio.create_task(agent.answer("s", question, "yes"))
    await settled()
    journal.let_go()
    assert (await answer).reason == "late"
    await asyncio.wait([run])
    assert run.cancelled()
    assert (await agent.run("And now?", session="s")).text == "I am back."


async def test_no_result_overtakes_a_question_that_its_tool_left_behind() -> None:
    journal, left, seen = SlowJournal(), list[asyncio.Task[str]](), list[str]()

    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        left.append(asyncio.create_task(context.ask(ClarificationQuestion(question="Sure?"))))
        await settled()
        return "paid"

    def observer(one: Observation) -> None:
        if isinstance(one.item, Event):
            seen.append(one.item.key)

    model = ScriptedModel(CALL, "Done.")
    agent = Agent(model, tools=[pay], journal=journal, on_question=silent, observers=[observer])
    run = asyncio.create_task(agent.run("Pay.", session="s"))
    await journal.until("t1")
    journal.save("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    journal.save("t1.i0.model", "t1.i0.begun")
    await settled()
    await journal.until("t1.i0.tool.0.ask.0.asked")
    journal.let_go()
    assert (await run).text == "Done."
    left[0].cancel()
    assert seen == [record.event.key for record in await journal.read("s")]


async def silent(_: object) -> object:
    return await asyncio.Event().wait()


# A journal that is gone before it reports whether a question was saved.


class Leaving(MemoryJournal):
    """Keeps a question, and is gone before it can say so."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if isinstance(event, QuestionAsked):
            self.gone.set()
            await asyncio.Event().wait()

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        if self.gone.is_set():
            self.gone.clear()
            raise JournalUnreachableError("talk", "cannot be reached")
        return await super().read(run, after)


async def test_a_question_that_may_be_saved_ends_the_turn_with_the_error_of_the_journal() -> None:
    journal = Leaving()

    @tool(effect="idempotent")
    async def ask(context: ToolContext) -> str:
        """Ask."""
        asking = asyncio.create_task(context.ask(ClarificationQuestion(question="Sure?")))
        if context.attempt > 1:
            return await asking
        await journal.gone.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        raise ConnectionError("is tried again")

    agent = Agent(
        ScriptedModel(ToolCall("c", "ask", "{}"), "Done."),
        tools=[ask],
        journal=journal,
        on_question=silent,
        clock=FakeClock(),
    )
    with pytest.raises(JournalUnreachableError):
        await agent.run("Go.", session="s")
