"""The reader of a stream that was cancelled before its run began waited for ever."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_its_reader_is_told_the_end() -> None:
    async with Agent(ScriptedModel("Hi.")).stream("Hello") as stream:
        stream.cancel()
        async with asyncio.timeout(5):
            assert [item async for item in stream] == []
        with pytest.raises(asyncio.CancelledError):
            assert stream.result
