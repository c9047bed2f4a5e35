"""Parallel calls of one iteration: what one of eight costs.

`parallel-call` is the cost of a turn with an iteration of 8 calls less that of a turn with none,
divided by 8: each call bears its share of the second request. `parallel-call-marginal` leaves
that request out: 64 calls less 8, divided by 56.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.json import Decoder

from benchmarks.case import Budget, Case, Seen, Turn, beyond
from benchmarks.cases.tool_iterations import QUESTION, TOOLS, Arguments, ours, weather
from benchmarks.floor import Call, Client, encode

__all__ = ["CASE", "MARGINAL", "floor", "ours"]


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Turn]:
    """As one call at a time, with the calls gathered."""
    arguments = Decoder(Arguments).decode

    async def run(call: Call) -> dict[str, str]:
        given = arguments(call.function.arguments)
        result = await weather(given.city, given.days)
        return {"role": "tool", "tool_call_id": call.id, "content": result}

    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            history = encode({"role": "user", "content": QUESTION})
            used_in = used_out = 0
            while True:
                body = b'{"model":"%b","messages":[%b],"tools":%b}'
                reply = await client.ask(body % (scenario.encode(), history, TOOLS))
                used_in += reply.usage.prompt_tokens
                used_out += reply.usage.completion_tokens
                choice = reply.choices[0]
                if choice.finish_reason != "tool_calls":
                    return Seen(choice.message.content or "", used_in, used_out)
                calls = choice.message.tool_calls or ()
                results = await asyncio.gather(*map(run, calls))
                said = [{"id": c.id, "type": "function", "function": c.function} for c in calls]
                told = [{"role": "assistant", "content": None, "tool_calls": said}, *results]
                history += b"," + encode(told)[1:-1]

        yield turn


CASE = Case(
    name="parallel-call",
    floor=floor,
    ours=ours,
    scenario="parallel-8",
    sample=beyond("text", "parallel-8", times=20, per=8),
    budgets=(Budget(metric="cpu", what="one of 8 parallel tool calls", limit=2.5),),
)

MARGINAL = Case(
    name="parallel-call-marginal",
    floor=floor,
    ours=ours,
    scenario="parallel-64",
    sample=beyond("parallel-8", "parallel-64", times=20, per=56),
    budgets=(Budget(metric="cpu", what="the same without its share of a request"),),
)
