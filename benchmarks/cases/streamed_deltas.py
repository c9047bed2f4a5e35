"""One delta of a stream of 2,000, handed to a consumer that keeps its text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from benchmarks.case import Budget, Case, Seen, Turn, each
from benchmarks.floor import KEY, Client, Usage, encode

QUESTION = "What will the weather be in Porto tomorrow?"
COUNT = 2000


@asynccontextmanager
async def floor(url: str, *, keep: bool = True) -> AsyncIterator[Turn]:
    """Bytes from aiohttp cut into lines, typed structs from msgspec, an async generator to the consumer."""
    async with Client(url, keep=keep) as client:

        async def turn(scenario: str) -> Seen:
            body = encode(
                {
                    "model": scenario,
                    "messages": [{"role": "user", "content": QUESTION}],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                }
            )
            texts: list[str] = []
            usage = Usage(0, 0)
            async for chunk in client.chunks(body):
                if chunk.choices:
                    choice = chunk.choices[0]
                    if text := choice.delta.content:
                        texts.append(text)
                usage = chunk.usage or usage
            return Seen("".join(texts), usage.prompt_tokens, usage.completion_tokens)

        yield turn


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Turn]:
    """`agent.stream`, its text deltas."""
    from holdfast import Agent, TextDelta  # noqa: PLC0415 - not in the floor's process

    @cache
    def agent(scenario: str) -> Agent[str]:
        return Agent(f"openai:{scenario}", base_url=url, api_key=KEY)

    async def turn(scenario: str) -> Seen:
        async with agent(scenario).stream(QUESTION) as run:
            texts = [item.text async for item in run if isinstance(item, TextDelta)]
            usage = run.result.usage
        return Seen("".join(texts), usage.input, usage.output)

    yield turn


CASE = Case(
    name="delta",
    floor=floor,
    ours=ours,
    scenario=f"stream-{COUNT}",
    sample=each(f"stream-{COUNT}", times=2, per=COUNT),
    budgets=(Budget(metric="cpu", what="one streamed delta", limit=2.0),),
)
