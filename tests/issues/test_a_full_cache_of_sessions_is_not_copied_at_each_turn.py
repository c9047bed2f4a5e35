"""When the cache of open sessions was full, each turn copied the table of all of them.

A recovery of 10,000 turns took three times as long for it, most of that in the garbage collector.
"""

from __future__ import annotations

import gc

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

TURNS = 100


async def count_collections(agent: Agent[str], first: int) -> int:
    """Count how often objects were collected during turns of new sessions: it follows their number."""
    before = gc.get_stats()[0]["collections"]
    for number in range(first, first + TURNS):
        await agent.run("Hello", session=str(number))
    return gc.get_stats()[0]["collections"] - before


async def test_a_turn_makes_no_more_objects_when_the_cache_is_full() -> None:
    model = ScriptedModel(*["Hi."] * 4200)
    agent = Agent(model, journal=MemoryJournal(), session_cache=32_000_000)
    few = await count_collections(agent, 0)
    for first in range(TURNS, 4100, TURNS):
        full = await count_collections(agent, first)
    assert full <= 2 * few + 20
