"""A stream with two readers hung, and one that was entered twice paid for a turn that nobody saw.

Of two tasks that read one stream, the one that waited first was forgotten, and never woken: not by the
next item, and not by the end. A stream that was entered again began the turn anew behind a channel
that was closed already. Both are mistakes of a program, and are told now.
"""

import asyncio

import pytest

from holdfast import Agent, RunStream
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def read(run: RunStream[str]) -> int:
    return len([item async for item in run])


async def test_a_second_reader_is_told_and_the_first_goes_on() -> None:
    async with Agent(ScriptedModel("Hello.")).stream("Hi") as run:
        first = asyncio.ensure_future(read(run))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await read(run)
        assert await asyncio.wait_for(first, 10) == 5
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
