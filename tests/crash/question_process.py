"""A process of a run that asks a person: `python -m tests.crash.question_process JOURNAL run|answer|resume`."""

from __future__ import annotations

import asyncio
import sys

from holdfast import Agent, Question, SqliteJournal, tool
from holdfast.core.events import QuestionAsked
from holdfast.core.messages import ToolCall
from holdfast.core.question_log import restore_question
from holdfast.testing import ScriptedModel
from holdfast.tools.context import ToolContext


class Budget(Question[int], frozen=True, kw_only=True):
    """How much may it cost?"""

    purpose: str


@tool(effect="write")
async def plan(ctx: ToolContext) -> str:
    """Plan a trip."""
    return f"a trip for {await ctx.ask(Budget(purpose='trip'))} euros"


async def main(path: str, what: str) -> None:
    with SqliteJournal(path) as journal:
        script = [(ToolCall("a", "plan", "{}"),)] if what == "run" else []
        model = ScriptedModel(*script, lambda request: request.messages[-1].parts[0].text)
        agent = Agent(model, tools=[plan], journal=journal, on_wait="suspend")
        if what == "run":
            result = await agent.run("go", session="s")
            (asked,) = result.questions
            assert isinstance(asked, Budget)
            print(f"{result.status.value} for Budget of {asked.purpose!r}")
        elif what == "answer":
            events = [record.event for record in await journal.read("s")]
            (asked,) = [event for event in events if isinstance(event, QuestionAsked)]
            receipt = await agent.answer("s", restore_question(asked, "s"), 500)
            print(receipt.reason or "taken")
        else:
            print((await agent.resume("s")).output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
