"""Reading a run that failed gave no text and no exception, so a web handler answered 200 with nothing.

An iterator that is read to its end raises what the run raised. Leaving early raises nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from pydantic import BaseModel
from tests.transport.raw import Client, RawServer

from holdfast import Agent, RunStream
from holdfast.core.errors import ErrorCategory, HoldfastError, TruncatedError
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import Emulator, HttpStatus

pytestmark = pytest.mark.anyio

Face = Callable[[RunStream[object]], AsyncIterator[object]]


class City(BaseModel):
    name: str


FACES: dict[str, Face] = {
    "items": lambda run: run,  # type: ignore[dict-item,return-value]
    "text": lambda run: run.text(),
    "live text": lambda run: run.text(live=True),
    "partials": lambda run: run.partials(),
}


@pytest.mark.parametrize("face", FACES)
async def test_a_refused_key_is_raised_by_every_iterator(face: str) -> None:
    async with Emulator(["Hi."], faults=[HttpStatus(401)] * 4) as provider:
        agent = Agent("openai:demo", base_url=provider.base_url, api_key="k", output=City)
        async with agent.stream("Hello") as run:
            with pytest.raises(HoldfastError) as caught:
                async for _ in FACES[face](run):  # type: ignore[arg-type]
                    pass
            assert caught.value.info.category is ErrorCategory.AUTH_ERROR
            with pytest.raises(HoldfastError) as again:
                assert run.result
            assert again.value is caught.value


async def collect(texts: AsyncIterator[str], into: list[str]) -> None:
    async for text in texts:
        into.append(text)  # noqa: PERF401  # what came before the exception is looked at


async def serve_half_a_reply(client: Client) -> None:
    await client.request()
    await client.chunked(b"text/event-stream")
    for delta, reason in (({"content": "Once upon"}, None), ({}, "length")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {"id": "r", "model": "m", "choices": [choice]}
        await client.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await client.chunk(b"data: [DONE]\n\n")
    await client.send(b"0\r\n\r\n")


async def test_a_reply_that_was_cut_at_its_limit_is_raised_after_its_text() -> None:
    server = RawServer(serve_half_a_reply)
    await server.start()
    read: list[str] = []
    try:
        place = f"http://127.0.0.1:{server.port}/v1"
        async with Agent("openai:demo", base_url=place, api_key="k").stream("Hello") as run:
            with pytest.raises(TruncatedError):
                await collect(run.text(live=True), read)
    finally:
        await server.stop()
    assert "".join(read) == "Once upon"


async def test_a_failed_run_raises_each_time_it_is_read() -> None:
    async with Agent(ScriptedModel(TruncatedError("cut"))).stream("Hello") as run:
        for _ in range(2):
            with pytest.raises(TruncatedError):
                assert [item async for item in run]


async def test_a_reader_that_leaves_early_raises_nothing() -> None:
    async with Agent(ScriptedModel(TruncatedError("cut"))).stream("Hello") as run:
        async for _ in run:
            break


async def test_an_exception_of_the_reader_is_the_one_that_is_raised() -> None:
    async def read_and_fail() -> None:
        async with Agent(ScriptedModel(TruncatedError("cut"))).stream("Hello") as run:
            async for _ in run:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await read_and_fail()


async def test_a_run_that_somebody_else_cancelled_does_not_end_quietly() -> None:
    begun = asyncio.Event()

    async def wait(_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with Agent(ScriptedModel(wait)).stream("Hello") as run:
        await begun.wait()
        (task,) = (one for one in asyncio.all_tasks() if one.get_name() == "holdfast-run")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async for _ in run:
                pass


async def test_the_caller_who_cancels_gets_a_plain_end() -> None:
    begun = asyncio.Event()

    async def wait(_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with Agent(ScriptedModel(wait)).stream("Hello") as run:
        await begun.wait()
        run.cancel()
        async for _ in run:
            pass
        with pytest.raises(asyncio.CancelledError):
            assert run.result
