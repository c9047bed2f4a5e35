"""A stream of a turn ends with its last item, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.json import decode

from holdfast import Agent
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.positions import START
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.server.api.event_stream import EventStreamResponse
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@contextmanager
def left_generators() -> Iterator[list[AsyncGenerator[object]]]:
    """Collect the generators that are dropped before their end."""
    left: list[AsyncGenerator[object]] = []
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=left.append)
    try:
        yield left
    finally:
        sys.set_asyncgen_hooks(*before)


async def send_turn(*, is_over: bool) -> list[MutableMapping[str, Any]]:
    """Return the messages of the response that streams a turn."""
    service = ServiceTenants([Agent(ScriptedModel("Hello."), name="greeter")]).for_tenant("default")
    turn = await service.start("greeter", "Hi.", session="s")
    if is_over:
        await service.runner.wait("s")
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    batches = service.reader.follow_batches("s", START, ReadingEnd(turn.number), 15.0)
    await EventStreamResponse(batches)({"type": "http"}, receive, send)
    await service.runner.wait("s")
    return sent


@pytest.mark.parametrize("is_over", [False, True])
async def test_the_last_piece_is_the_end_of_the_stream(is_over: bool) -> None:
    start, *pieces = await send_turn(is_over=is_over)
    assert start["status"] == 200
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert b"event: end" in pieces[-1]["body"]
    lines = b"".join(piece["body"] for piece in pieces).split(b"\n")
    items = [decode(line[6:]) for line in lines if line.startswith(b"data: ")]
    assert items[-1] == {"type": "end", "position": "3", "reason": "turn_ended"}


async def test_the_first_piece_is_everything_that_is_there() -> None:
    pieces = (await send_turn(is_over=True))[1:]
    assert len(pieces) == 1
    assert pieces[0]["body"].startswith(b"id: 0\nevent: status\n")


@pytest.mark.parametrize("is_over", [False, True])
async def test_every_reader_of_a_stream_is_closed_at_its_end(is_over: bool) -> None:
    with left_generators() as left:
        await send_turn(is_over=is_over)
    assert left == []
