from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast.calls.sdk_streams import aopen_stream, open_stream
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


def test_a_stream_is_closed_whether_it_was_read_to_its_end_or_not() -> None:
    stream = Stream([1, 2])
    with open_stream(stream) as chunks:
        assert list(chunks) == [1, 2]
    with pytest.raises(ZeroDivisionError), open_stream(stream):
        raise ZeroDivisionError
    assert stream.closed == 2


def test_a_manager_is_entered_and_left() -> None:
    manager = Manager(Stream([1]))
    with open_stream(manager) as chunks:
        assert list(chunks) == [1]
    assert manager.left
    assert manager.stream.closed == 1


def test_no_stream_and_what_is_none() -> None:
    with pytest.raises(EmptyResponseError, match="no response stream received"), open_stream(None):
        pass
    for wrong in (7, "text", b"bytes"):
        with pytest.raises(UnexpectedTypeError, match="stream of chunks"), open_stream(wrong):
            pass


def test_an_asynchronous_stream_is_refused_where_it_cannot_be_followed() -> None:
    with pytest.raises(UnexpectedTypeError, match="async_generator"), open_stream(numbers()):
        pass

    async def call() -> AsyncIterator[int]:
        return numbers()

    with pytest.raises(UnexpectedTypeError, match="coroutine"), open_stream(call()):
        pass


def test_a_whole_response_is_a_stream_of_one() -> None:
    with open_stream({"choices": []}) as chunks:
        assert list(chunks) == [{"choices": []}]


async def test_asynchronous_streams_are_awaited_entered_and_closed() -> None:
    async def call() -> AsyncIterator[int]:
        return numbers()

    async with aopen_stream(call()) as chunks:
        assert [chunk async for chunk in chunks] == [1, 2]
    manager = AsyncManager()
    async with aopen_stream(manager) as chunks:
        assert [chunk async for chunk in chunks] == [1, 2]
    assert manager.left
    stream = numbers()
    async with aopen_stream(stream) as chunks:
        assert await anext(aiter(chunks)) == 1
    assert [chunk async for chunk in stream] == []


async def test_a_blocking_stream_is_refused_where_it_would_stop_every_other_task() -> None:
    with pytest.raises(UnexpectedTypeError, match="async stream of chunks"):
        async with aopen_stream(Stream([1])):
            pass
    with pytest.raises(EmptyResponseError):
        async with aopen_stream(None):
            pass
    async with aopen_stream({"choices": []}) as chunks:
        assert [chunk async for chunk in chunks] == [{"choices": []}]
