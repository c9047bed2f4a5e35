"""The journal in memory passes the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.effects import CallModel
from holdfast.core.events import ToolsBegun
from holdfast.journal.memory import MemoryJournal
from holdfast.testing.journal_conformance import JournalConformance
from holdfast.testing.store_conformance import StoreConformance


class TestMemoryJournal(JournalConformance, StoreConformance):
    @pytest.fixture
    def journal(self) -> MemoryJournal:
        return MemoryJournal()


class Late:
    """An event; while its time is looked at, something else happens."""

    key = "late"

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    @property
    def at(self) -> float:
        self._meanwhile()
        return 1.0


async def test_a_memory_journal_is_read_while_another_thread_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    keys = iter(range(100))

    def append() -> None:
        event = ToolsBegun(f"k{next(keys)}", 1.0)
        for run in ("ada", f"another {event.key}"):
            thread = threading.Thread(target=asyncio.run, args=(journal.append(run, event),))
            thread.start()
            thread.join(10)

    def fingerprint(_: object) -> str:
        append()
        return "d"

    event: Any = Late(append)
    await journal.append("ada", event, CallModel("late", 0, 1))
    monkeypatch.setattr("holdfast.journal.memory.effect_digest", fingerprint)
    assert [record.event.key for record in await journal.read("ada")] == ["late"]
    assert [entry.run for entry in await journal.runs()] == ["ada", "another k0"]
    assert len(await journal.read("ada", 1)) == 2
