"""A question that ended while the terminal waited for its answer consumed the next line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from holdfast.cli.input_lines import LineReader


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(sink)
    os.close(source)


async def left_waiting(lines: LineReader, times: int = 1) -> None:
    for _ in range(times):
        reading = asyncio.ensure_future(lines.read_line())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()


@pytest.mark.parametrize("times", [1, 5])
async def test_the_next_reader_has_it(pipe: tuple[int, int], times: int) -> None:
    source, sink = pipe
    lines = LineReader(source)
    await left_waiting(lines, times)
    os.write(sink, b"hello\nagain\n")
    async with asyncio.timeout(20):
        assert [await lines.read_line(), await lines.read_line()] == ["hello", "again"]


async def test_a_line_that_came_before_anybody_read_again_is_had(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    lines = LineReader(source)
    await left_waiting(lines)
    os.write(sink, b"hello\n")
    assert lines._pending_read is not None
    async with asyncio.timeout(20):
        await asyncio.wait([lines._pending_read])
        assert await lines.read_line() == "hello"
