"""A reader of a stream learns how the run ended, whichever iterator it reads."""

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

# An iterator that is read to its end raises the error of the run. Leaving early raises nothing.

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


# A stream has one reader, and runs once.


async def read(run: RunStream[str]) -> int:
    return len([item async for item in run])


async def test_a_second_reader_is_refused_and_the_first_goes_on() -> None:
    async with Agent(ScriptedModel("Hello.")).stream("Hi") as run:
        first = asyncio.ensure_future(read(run))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await read(run)
        assert await asyncio.wait_for(first, 60) == 5
    assert run.result.output == "Hello."


async def test_a_reader_that_was_cancelled_makes_room_for_another() -> None:
    go_on = asyncio.Event()

    async def slowly(_: object) -> str:
        await go_on.wait()
        return "Hello."

    async with Agent(ScriptedModel(slowly)).stream("Hi") as run:
        first = asyncio.ensure_future(read(run))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        go_on.set()
        assert [text async for text in run.text()] == ["Hello."]


async def test_a_stream_that_was_left_is_not_entered_again() -> None:
    model = ScriptedModel("Hello.", "Again.")
    stream = Agent(model).stream("Hi")
    async with stream as run:
        assert [text async for text in run.text()] == ["Hello."]
    with pytest.raises(RuntimeError, match="once"):
        async with stream:
            pass
    assert len(model.requests) == 1
    assert stream.result.output == "Hello."


async def test_a_stream_that_is_cancelled_at_once_ends() -> None:
    async with Agent(ScriptedModel("Hi.")).stream("Hello") as stream:
        stream.cancel()
        async with asyncio.timeout(60):
            assert [item async for item in stream] == []
        with pytest.raises(asyncio.CancelledError):
            assert stream.result
