"""Streams of SDKs are opened, read and closed, in both kinds of function."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast.calls import ResponseHandler
from holdfast.calls.opened_streams import open_stream
from holdfast.core.errors import EmptyResponseError, UnexpectedTypeError


class Stream:
    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = chunks
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.chunks)

    def close(self) -> None:
        self.closed += 1
        raise OSError("already gone")


class Manager:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.left = False

    def __enter__(self) -> Stream:
        return self.stream

    def __exit__(self, *_: object) -> None:
        self.left = True


class AsyncManager:
    def __init__(self) -> None:
        self.left = False

    async def __aenter__(self) -> AsyncIterator[int]:
        return numbers()

    async def __aexit__(self, *_: object) -> None:
        self.left = True


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


async def test_a_stream_is_closed_whether_it_was_read_to_its_end_or_not() -> None:
    stream = Stream([1, 2])
    async with open_stream(stream, blocking=True) as chunks:
        assert [chunk async for chunk in chunks] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        async with open_stream(stream, blocking=True):
            raise ZeroDivisionError
    assert stream.closed == 2


async def test_a_manager_is_entered_and_left() -> None:
    manager = Manager(Stream([1]))
    async with open_stream(manager, blocking=True) as chunks:
        assert [chunk async for chunk in chunks] == [1]
    assert manager.left
    assert manager.stream.closed == 1


async def test_no_stream_and_what_is_none() -> None:
    with pytest.raises(EmptyResponseError, match="no response stream received"):
        async with open_stream(None, blocking=True):
            pass
    for wrong in (7, "text", b"bytes"):
        with pytest.raises(UnexpectedTypeError, match="stream of chunks"):
            async with open_stream(wrong, blocking=True):
                pass


async def test_an_asynchronous_stream_is_refused_where_it_cannot_be_followed() -> None:
    with pytest.raises(UnexpectedTypeError, match="async_generator"):
        async with open_stream(numbers(), blocking=True):
            pass

    async def call() -> AsyncIterator[int]:
        return numbers()

    with pytest.raises(UnexpectedTypeError, match="coroutine"):
        async with open_stream(call(), blocking=True):
            pass


async def test_a_whole_response_is_a_stream_of_one() -> None:
    async with open_stream({"choices": []}, blocking=True) as chunks:
        assert [chunk async for chunk in chunks] == [{"choices": []}]


async def test_asynchronous_streams_are_awaited_entered_and_closed() -> None:
    async def call() -> AsyncIterator[int]:
        return numbers()

    async with open_stream(call(), blocking=False) as chunks:
        assert [chunk async for chunk in chunks] == [1, 2]
    manager = AsyncManager()
    async with open_stream(manager, blocking=False) as chunks:
        assert [chunk async for chunk in chunks] == [1, 2]
    assert manager.left
    stream = numbers()
    async with open_stream(stream, blocking=False) as chunks:
        assert await anext(aiter(chunks)) == 1
    assert [chunk async for chunk in stream] == []


async def test_a_blocking_stream_is_refused_where_it_would_stop_every_other_task() -> None:
    with pytest.raises(UnexpectedTypeError, match="async stream of chunks"):
        async with open_stream(Stream([1]), blocking=False):
            pass
    with pytest.raises(EmptyResponseError):
        async with open_stream(None, blocking=False):
            pass
    async with open_stream({"choices": []}, blocking=False) as chunks:
        assert [chunk async for chunk in chunks] == [{"choices": []}]


# A chunk whose fields cannot be read.

KEY = "sk-proj-Abcdefghijklmnopqrstuvwxyz0123456789"


class Broken:
    """A chunk of a client that fails with a key in its text."""

    @property
    def choices(self) -> object:
        raise RuntimeError(f"the request with {KEY} failed")


def chunks() -> object:
    yield Broken()


def test_the_log_of_an_unreadable_chunk_names_the_place_and_no_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = ResponseHandler()
    formatter = logging.Formatter("%(message)s %(chunk_num)s %(error)s")
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        handler.handle(chunks())
    (record,) = [one for one in caplog.records if one.message == "Chunk processing failed"]
    assert KEY not in formatter.format(record) + caplog.text
    assert "in choices" in formatter.format(record)
