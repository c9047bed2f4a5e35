"""What type checkers must see of batches. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import assert_type

from holdfast import Agent, MemoryJournal
from holdfast.batches import BatchItem, BatchResult, BatchRun


@dataclass
class Trip:
    city: str


async def cities() -> AsyncIterator[str]:
    yield "Porto"


async def use() -> None:
    agent = Agent("ollama:qwen3", output=Trip)
    assert_type(agent.map(["Porto"]), BatchRun[str, Trip])
    result = await agent.map([1, 2], prompt=str, parallel=2, journal=MemoryJournal(), name="n")
    assert_type(result, BatchResult[int, Trip])
    assert_type(result.outputs, list[Trip | None])
    async for item in agent.map(cities(), on_error="stop", retries=2):
        assert_type(item, BatchItem[str, Trip])
        assert_type(item.output, Trip)
    assert_type(agent.map(["Porto"]).run_sync(), BatchResult[str, Trip])
    agent.map(["Porto"], on_error="ignore")  # type: ignore[arg-type]
    await Agent("ollama:qwen3", deps_type=int).map(["Porto"], deps=1)
