"""One turn without tools: one request, one reply, its text and its usage.

`agent.run` receives the reply as a stream, or whole where the provider's row says so, as that of `vllm`
does. There is a case for both, and one for a turn that is saved in a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.case import Budget, Case, Seen, Turn, each
from benchmarks.floor import KEY, Client, Usage, encode

if TYPE_CHECKING:
    from holdfast.journal import Journal

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
    """`agent.run`, with whole replies."""
    async with _agent("vllm:text", url) as turn:
        yield turn


@asynccontextmanager
async def streaming_floor(url: str) -> AsyncIterator[Turn]:
    """A body, a request, a decode of each event."""
    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            messages = [{"role": "user", "content": QUESTION}]
            body = {"model": scenario, "messages": messages, "stream": True}
            texts, usage = [], Usage(0, 0)
            async for chunk in client.chunks(
                encode({**body, "stream_options": {"include_usage": True}})
            ):
                texts += [choice.delta.content or "" for choice in chunk.choices]
                usage = chunk.usage or usage
            return Seen("".join(texts), usage.prompt_tokens, usage.completion_tokens)

        yield turn


@asynccontextmanager
async def streaming(url: str) -> AsyncIterator[Turn]:
    """`agent.run`, with streamed replies."""
    async with _agent("openai:text", url) as turn:
        yield turn


@asynccontextmanager
async def responses(url: str) -> AsyncIterator[Turn]:
    """`agent.run` on the Responses wire, which streams by default."""
    async with _agent("openai-responses:text", url) as turn:
        yield turn


@asynccontextmanager
async def durable(url: str) -> AsyncIterator[Turn]:
    """`agent.run`, with streamed replies and a journal in a file."""
    from holdfast import SqliteJournal  # noqa: PLC0415 - not in the floor's process

    with TemporaryDirectory() as folder, SqliteJournal(Path(folder) / "journal.db") as journal:
        async with _agent("openai:text", url, journal) as turn:
            yield turn


@asynccontextmanager
async def _agent(model: str, url: str, journal: Journal | None = None) -> AsyncIterator[Turn]:
    from holdfast import Agent  # noqa: PLC0415 - not in the floor's process

    agent = Agent(model, base_url=url, api_key=KEY, journal=journal)

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

STREAMED = Case(
    name="streamed-turn",
    floor=streaming_floor,
    ours=streaming,
    scenario="text",
    sample=each("text", times=50),
    budgets=(Budget(metric="cpu", what="one turn, no tools, its reply streamed", limit=2.0),),
)

DURABLE = Case(
    name="durable-turn",
    floor=streaming_floor,
    ours=durable,
    scenario="text",
    sample=each("text", times=20),
    budgets=(Budget(metric="cpu", what="one turn, its reply streamed, saved in a file"),),
    quick=5,
)

# Only counted: the floor does not speak this wire.
RESPONSES = Case(
    name="responses-turn",
    floor=streaming_floor,
    ours=responses,
    scenario="text",
    sample=each("text", times=50),
    budgets=(),
)
