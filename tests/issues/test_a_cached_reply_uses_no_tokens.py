"""An answer from the cache counted as if it had been paid for again.

The cache of `Resilience` gave back a reply with the usage that its provider had billed the first
time. So `result.usage` of a batch told more than the bill, and limits of tokens and of money counted what
nobody had been billed for. (`IterationCache` has always given them for nothing.)
"""

import asyncio

import pytest

from holdfast import Agent, Resilience, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.resilience import CacheOptions
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CACHE = Resilience(cache=CacheOptions())


async def test_a_kept_answer_has_no_usage() -> None:
    agent = Agent(ScriptedModel("Porto."), resilience=CACHE)
    results = [await agent.run("Which city?") for _ in range(2)]
    assert [result.output for result in results] == ["Porto."] * 2
    assert [result.usage for result in results] == [Usage(10, 5), Usage()]


async def test_an_answer_that_several_wait_for_is_paid_once() -> None:
    async def slowly(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return "Porto."

    agent = Agent(ScriptedModel(slowly), resilience=CACHE)
    results = await asyncio.gather(*(agent.run("Which city?") for _ in range(3)))
    assert sum(result.usage.total for result in results) == 15
