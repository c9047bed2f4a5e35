"""What type checkers must see of streams. Checked by mypy and pyright, never run."""

from __future__ import annotations

from typing import assert_type

from holdfast import Agent, ModelReplied, Reply, Result, RunStream, TextDelta
from holdfast.errors import TextWithdrawn
from holdfast.events import FromAgent, ReplyReplaced


async def read(agent: Agent[int]) -> None:
    async with agent.stream("Hi") as run:
        assert_type(run, RunStream[int])
        async for item in run:
            if isinstance(item, TextDelta):
                assert_type(item.text, str)
            elif isinstance(item, ModelReplied):
                assert_type(item.reply, Reply)
            elif isinstance(item, ReplyReplaced):
                assert_type(item.key, str)
            elif isinstance(item, FromAgent):
                assert_type(item.chain, tuple[str, ...])
        assert_type(await run.wait(), Result[int])
        assert_type(run.result.output, int)
    async with agent.resume_stream("ada") as resumed:
        try:
            async for text in resumed.text(live=True):
                assert_type(text, str)
        except TextWithdrawn as void:
            assert_type(void.text, str)
