"""One attempt over real HTTP: what is a reply, what is a failure, and what is kept of it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, RetryOptions, Timeouts
from holdfast.core.errors import ResponseValidationError, TransportError, UnterminatedError
from holdfast.testing.emulator import (
    DropAfter,
    Emulator,
    Html200,
    NoTerminator,
    SplitEveryByte,
    Stall,
)

ANSWER = "one two three four five six"


def agent(emulator: Emulator, *, retries: int = 0, timeouts: Timeouts | None = None) -> Agent[str]:
    return Agent(
        "openai:m",
        base_url=emulator.base_url,
        api_key="k",
        retry=RetryOptions(max_retries=retries, retry_delay=0.001),
        timeouts=timeouts,
    )


async def streamed(made: Agent[str]) -> str:
    async with made.stream("go") as run:
        async for _item in run:
            pass
    return run.result.output


async def test_every_byte_alone_is_the_same_reply_streamed_or_not() -> None:
    async with Emulator([ANSWER, ANSWER], faults=[SplitEveryByte(), SplitEveryByte()]) as emulator:
        assert await streamed(agent(emulator)) == ANSWER
        assert (await agent(emulator).run("go")).output == ANSWER


async def test_a_connection_that_breaks_after_the_end_marker_costs_nothing() -> None:
    async with Emulator([ANSWER]) as emulator:
        made = agent(emulator)
        await streamed(made)
        chunks = emulator.requests[0].chunks
    async with Emulator([ANSWER], faults=[DropAfter(chunks)]) as emulator:
        assert await streamed(agent(emulator)) == ANSWER
        assert len(emulator.requests) == 1


async def test_a_break_in_the_middle_keeps_the_partial_text_on_the_error() -> None:
    async with Emulator([ANSWER], faults=[DropAfter(4)]) as emulator:
        with pytest.raises(TransportError) as caught:
            await streamed(agent(emulator))
    assert caught.value.partial is not None
    assert ANSWER.startswith(caught.value.partial.text)
    assert caught.value.partial.text


async def test_a_stream_that_just_ends_is_no_success() -> None:
    async with Emulator([ANSWER], faults=[NoTerminator()]) as emulator:
        with pytest.raises(UnterminatedError):
            await streamed(agent(emulator))


@pytest.mark.parametrize("live", [True, False])
async def test_a_page_instead_of_a_reply_is_named(live: bool) -> None:
    async with Emulator([ANSWER], faults=[Html200()]) as emulator:
        made = agent(emulator)
        with pytest.raises(ResponseValidationError):
            await (streamed(made) if live else made.run("go"))


async def test_a_stream_that_stalls_behind_keep_alive_comments_is_timed_out_and_tried_again() -> (
    None
):
    stall = Stall(after=2, seconds=30, comments=True, every=0.02)
    async with Emulator([ANSWER, ANSWER], faults=[stall]) as emulator:
        made = agent(emulator, retries=1, timeouts=Timeouts(between_chunks=0.2))
        assert await streamed(made) == ANSWER
        assert emulator.requests[0].client_gone


async def test_cancelling_closes_the_socket() -> None:
    async with Emulator([ANSWER], faults=[Stall(after=3, seconds=30)]) as emulator:
        made = agent(emulator)
        async with made.stream("go") as run:
            async for item in run:
                if type(item).__name__ == "TextDelta":
                    break
        while not emulator.requests[0].client_gone:
            await asyncio.sleep(0.01)
        assert emulator.requests[0].client_gone
