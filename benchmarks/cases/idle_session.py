"""What a session of ten short turns keeps in memory while nobody speaks.

The floor keeps the encoded bytes of its history, which is all that the next request needs. Memory
is what the process holds more after the sessions than before, divided by the sessions.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle

from benchmarks.case import Budget, Case, Sample, Seen, Turn
from benchmarks.floor import KEY, Client, encode
from benchmarks.memory import resident_bytes

QUESTION = "What will the weather be in Porto tomorrow?"
SESSIONS = 300
TURNS = 10


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Turn]:
    """A dictionary of bytes; each turn speaks in the next session."""
    sessions: dict[str, bytes] = defaultdict(bytes)
    names = cycle(f"session-{number}" for number in range(SESSIONS))
    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            name = next(names)
            asked = encode({"role": "user", "content": QUESTION})
            history = sessions[name] + b"," + asked if sessions[name] else asked
            reply = await client.ask(
                b'{"model":"%b","messages":[%b]}' % (scenario.encode(), history)
            )
            text = reply.choices[0].message.content or ""
            sessions[name] = history + b"," + encode({"role": "assistant", "content": text})
            return Seen(text, reply.usage.prompt_tokens, reply.usage.completion_tokens)

        yield turn


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Turn]:
    """`agent.run` with a session's name, kept in memory."""
    from holdfast import Agent  # noqa: PLC0415 - not in the floor's process

    agent = Agent("vllm:text", base_url=url, api_key=KEY)
    names = cycle(f"session-{number}" for number in range(SESSIONS))

    async def turn(_: str) -> Seen:
        result = await agent.run(QUESTION, session=next(names))
        return Seen(result.text, result.usage.input, result.usage.output)

    yield turn


async def sample(turn: Turn) -> Sample:
    """Bytes of one session."""
    gc.collect()
    before = resident_bytes()
    for _ in range(SESSIONS * TURNS):
        await turn("text")
    gc.collect()
    return {"held": (resident_bytes() - before) / SESSIONS}


CASE = Case(
    name="idle-session",
    floor=floor,
    ours=ours,
    scenario="text",
    sample=sample,
    budgets=(
        Budget(
            metric="held",
            what="an idle session of ten turns: memory above the floor's",
            unit="B",
            compare="difference",
            scale=1000,
            shown="KB",
        ),
    ),
    pairs=2,
    quick=1,
    apart=True,
)
