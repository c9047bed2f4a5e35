"""One turn without tools: one request, one whole reply, its text and its usage.

The row `vllm` asks for whole replies, as the floor does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.case import Budget, Case, Seen, Turn, each
from benchmarks.floor import KEY, Client, encode

QUESTION = "What will the weather be in Porto tomorrow?"


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Turn]:
    """A body, a request, a decode."""
    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            messages = [{"role": "user", "content": QUESTION}]
            body = encode({"model": scenario, "messages": messages})
            reply = await client.ask(body)
            text = reply.choices[0].message.content or ""
            return Seen(text, reply.usage.prompt_tokens, reply.usage.completion_tokens)

        yield turn


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Turn]:
    """`agent.run`."""
    from holdfast import Agent  # noqa: PLC0415 - not in the floor's process

    agent = Agent("vllm:text", base_url=url, api_key=KEY)

    async def turn(_: str) -> Seen:
        result = await agent.run(QUESTION)
        return Seen(result.text, result.usage.input, result.usage.output)

    yield turn


CASE = Case(
    name="one-turn",
    floor=floor,
    ours=ours,
    scenario="text",
    sample=each("text", times=50),
    budgets=(Budget(metric="cpu", what="one turn, no tools", limit=2.0),),
)
