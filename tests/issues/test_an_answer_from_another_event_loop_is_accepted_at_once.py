"""Whoever gave an answer on another event loop than that of its run hung, though it was kept.

It was for a tool that was suspended while another tool of its turn was at work, and nobody woke the
loop on which `agent.answer` waited for the record.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call


def test_an_answer_from_another_event_loop_is_accepted_at_once() -> None:
    waits, go_on = threading.Event(), threading.Event()
    taken: list[bool] = []

    @tool(effect="write")
    async def book(context: ToolContext) -> str:
        """Book."""
        return await context.ask(ClarificationQuestion(question="Where?"))

    @tool(effect="read")
    async def look() -> str:
        """Look, until there is an answer."""
        while not agent._engine.answering.active_turns["ada"].effects.suspended_count:
            await asyncio.sleep(0)
        waits.set()
        await asyncio.to_thread(go_on.wait, 60)
        return "a wall"

    async def answer() -> None:
        (question,) = await agent.questions("ada")
        taken.append(bool(await agent.answer("ada", question, "Porto")))

    calls = [call("book", {}, id="1"), call("look", {}, id="2")]
    model = ScriptedModel(calls, "Done.")
    agent = Agent(model, tools=[book, look], journal=MemoryJournal(), on_wait="suspend")
    answering = threading.Thread(target=lambda: asyncio.run(answer()), daemon=True)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(agent.run_sync, "Go.", session="ada")
        try:
            assert waits.wait(20)
            answering.start()
            answering.join(20)
            assert taken == [True]
        finally:
            go_on.set()
        assert run.result(20).text == "Done."
