"""A process that a test kills while it writes: `python -m tests.crash.checked_write_process JOURNAL ADDRESS`.

It begins a turn with one payment, or recovers it. The party at the address loses no payment, but takes its time.
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp

from holdfast import Agent, SqliteJournal, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.testing import ScriptedModel
from holdfast.tools import Check, DoubtfulCall, Happened, NotHappened, ToolContext

LIMIT, SETTLE = 2.0, 2.0


def answer(request: ModelRequest) -> tuple[ToolCall, ...] | str:
    """Pay once, and then say what the payment returned."""
    last = request.messages[-1].parts[-1]
    return last.text if isinstance(last, ToolResult) else (ToolCall("a", "pay", "{}"),)


async def main(path: str, address: str) -> None:
    async with aiohttp.ClientSession(address) as http:

        async def was_paid(call: DoubtfulCall) -> Happened | NotHappened:
            async with http.get("/payments", params={"key": call.idempotency_key}) as response:
                return Happened("paid") if response.status == 200 else NotHappened()

        @tool(effect="write", timeout=LIMIT, check=Check(was_paid, settle=SETTLE, retry=9))
        async def pay(context: ToolContext) -> str:
            """Pay."""
            async with http.post("/payments", params={"key": context.idempotency_key}) as response:
                response.raise_for_status()
                return "paid"

        with SqliteJournal(path) as journal:
            agent = Agent(ScriptedModel(*[answer] * 9), tools=[pay], journal=journal)
            if await journal.read("ada"):
                results = [found.result for found in await agent.recover()]
            else:
                results = [await agent.run("pay", session="ada")]
            print(*[result.text for result in results], flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
