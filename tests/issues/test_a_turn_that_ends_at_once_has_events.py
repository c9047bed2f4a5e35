"""A turn may begin and end between two looks of its reader: at the journal, and then at the inbox."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent
from holdfast.event_log.stream_items import EndItem
from holdfast.journal import MemoryJournal
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker


async def test_a_turn_that_ends_after_the_journal_was_read_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("Hello."), name="greeter", journal=journal)
    run = await agent.submit("Hi.", session="ada")
    find_request, has_run = MemoryJournal.find_request, False

    async def find_before_the_turn(journal: MemoryJournal, request: str) -> Any:
        nonlocal has_run
        found = await find_request(journal, request)
        if not has_run:
            has_run = True
            async with Worker(agent):
                await run.wait(20)
        return found

    monkeypatch.setattr(MemoryJournal, "find_request", find_before_the_turn)
    items = [item async for _, item in run.events()]
    assert isinstance(items[-1], EndItem)
