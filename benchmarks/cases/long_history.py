"""A turn on a history of 5,000 messages, about 1 MB, that the session has sent before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.case import Budget, Case, Seen, Turn, each
from benchmarks.floor import KEY, Client, encode
from benchmarks.replies import ANSWER

QUESTION = "What will the weather be in Porto tomorrow?"
SAID = "It will be sunny in Porto, with a light wind from the north and 24 degrees at noon. " * 2
COUNT = 5000


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Turn]:
    """The encoded history is kept; a turn joins it with its question."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": SAID} for index in range(COUNT - 2)]
    messages += [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    history = encode(messages)[1:-1]
    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            question = encode({"role": "user", "content": QUESTION})
            # A join copies the history once; `%` would grow its result and copy more.
            head = b'{"model":"%b","messages":[' % scenario.encode()
            body = b"".join((head, history, b",", question, b"]}"))
            reply = await client.ask(body)
            text = reply.choices[0].message.content or ""
            return Seen(text, reply.usage.prompt_tokens, reply.usage.completion_tokens)

        yield turn


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Turn]:
    """`agent.run` with the history of an earlier result."""
    from holdfast import Agent, assistant, user  # noqa: PLC0415 - not in the floor's process

    agent = Agent("vllm:text", base_url=url, api_key=KEY)
    said = [(assistant if index % 2 else user)(SAID) for index in range(COUNT - 2)]
    first = await agent.run(QUESTION, history=said)
    history = first.history

    async def turn(_: str) -> Seen:
        result = await agent.run(QUESTION, history=history)
        return Seen(result.text, result.usage.input, result.usage.output)

    yield turn


CASE = Case(
    name="long-history",
    floor=floor,
    ours=ours,
    scenario="text",
    sample=each("text", times=10),
    budgets=(Budget(metric="cpu", what="a turn on a history of 5,000 messages", limit=1.5),),
)
