"""A reply that nobody reads while it comes: `agent.run` with a row whose replies are streamed.

The floor of the paced reply is a bare asyncio protocol: it appends what the socket has, and decodes
it once at the end. The floor of the burst is the vendor's own client, which asks for a whole reply as
its users do.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from benchmarks.case import Budget, Case, Sample, Seen, Turn, each
from benchmarks.floor import KEY, Chunk, Usage, encode

QUESTION = "What will the weather be in Porto tomorrow?"
PACED = "drip-200"
BURST = "burst-1000"
_END = b"\r\n0\r\n\r\n"
_decode = msgspec.json.Decoder(Chunk).decode


class Appending(asyncio.Protocol):
    """One connection of the floor: it keeps each segment until the end of the body."""

    def __init__(self) -> None:
        self._segments: list[bytes] = []
        self._done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Appends a segment."""
        self._segments.append(data)
        if data.endswith(_END):
            self._done.set_result(b"".join(self._segments))

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return its response."""
        self._segments.clear()
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._done

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


@asynccontextmanager
async def appending(url: str) -> AsyncIterator[Turn]:
    """A bare protocol on one connection."""
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(Appending, place.hostname or "", place.port or 80)

    async def turn(scenario: str) -> Seen:
        messages = [{"role": "user", "content": QUESTION}]
        asked = {"model": scenario, "messages": messages, "stream": True}
        body = encode({**asked, "stream_options": {"include_usage": True}})
        head = f"POST {place.path}/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
        response = await protocol.ask(head.encode() + body)
        texts, usage = [], Usage(0, 0)
        for line in response.split(b"\n"):
            if line.startswith(b"data: {"):
                chunk = _decode(line[6:])
                texts += [choice.delta.content or "" for choice in chunk.choices]
                usage = chunk.usage or usage
        return Seen("".join(texts), usage.prompt_tokens, usage.completion_tokens)

    try:
        yield turn
    finally:
        protocol.close()


@asynccontextmanager
async def vendor(url: str) -> AsyncIterator[Turn]:
    """The client of OpenAI, which asks for a whole reply."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - not in our process

    async with AsyncOpenAI(base_url=url, api_key=KEY) as client:

        async def turn(scenario: str) -> Seen:
            reply = await client.chat.completions.create(
                model=scenario, messages=[{"role": "user", "content": QUESTION}]
            )
            assert reply.usage is not None
            text = reply.choices[0].message.content or ""
            return Seen(text, reply.usage.prompt_tokens, reply.usage.completion_tokens)

        yield turn


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Turn]:
    """`agent.run`."""
    from holdfast import Agent  # noqa: PLC0415 - not in the floor's process

    agents: dict[str, Agent[str]] = {}

    async def turn(scenario: str) -> Seen:
        if scenario not in agents:
            agents[scenario] = Agent(f"openai:{scenario}", base_url=url, api_key=KEY)
        result = await agents[scenario].run(QUESTION)
        return Seen(result.text, result.usage.input, result.usage.output)

    yield turn


async def sample_paced(turn: Turn) -> Sample:
    """CPU seconds of one reply, and the seconds from its last byte to its result."""
    gc.collect()
    begin = time.process_time()
    await turn(PACED)
    end, done_at = time.process_time(), time.monotonic()
    sent_at = float((await turn("sent")).text)
    return {"cpu": end - begin, "late": done_at - sent_at}


CASE = Case(
    name="unwatched-paced",
    floor=appending,
    ours=ours,
    scenario=PACED,
    sample=sample_paced,
    budgets=(
        Budget(metric="cpu", what="`run`: 200 tokens of 10 ms, against appending", limit=1.5),
        Budget(
            metric="late",
            what="the same: from the last byte to the result",
            compare="ours",
            scale=1e-3,
            shown="ms",
            limit=2.0,
        ),
    ),
    pairs=9,
    quick=2,
)

BURST_CASE = Case(
    name="unwatched-burst",
    floor=vendor,
    ours=ours,
    scenario=BURST,
    sample=each(BURST, times=10),
    budgets=(
        Budget(
            metric="cpu", what="`run`: 1,000 tokens at once, against openai's client", limit=1.0
        ),
    ),
    pairs=20,
    same_requests=False,
)
