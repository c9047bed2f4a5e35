"""A journal that nobody holds any more ends, and blocks no other journal."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.journal import dropped_journals
from holdfast.journal.dropped_journals import close_now, end_when_dropped
from holdfast.journal.files import file_lock
from holdfast.runtime.sessions import session_pool
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker


def drop_within(monkeypatch: pytest.MonkeyPatch, holder: list[Any]) -> None:
    """Let a journal be dropped while another one has the lock under which files are locked."""
    write = file_lock._write_record

    def write_and_drop(lock: int) -> None:
        holder.clear()
        gc.collect()
        write(lock)

    monkeypatch.setattr(file_lock, "_write_record", write_and_drop)


@pytest.mark.slow  # takes half a second or more
def test_a_journal_that_is_dropped_while_another_opens_ends_and_so_does_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped_journals, "SECONDS_TO_WAIT", 0.05)
    dropped = [SqliteJournal(tmp_path / "a.db")]
    thread = dropped[0]._writer._thread  # type: ignore[attr-defined]
    drop_within(monkeypatch, dropped)
    opened: list[SqliteJournal] = []
    opening = threading.Thread(
        target=lambda: opened.append(SqliteJournal(tmp_path / "b.db")), daemon=True
    )
    opening.start()
    opening.join(20)
    assert not opening.is_alive()
    thread.join(20)
    assert not thread.is_alive()
    with SqliteJournal(tmp_path / "a.db"):
        opened[0].close()


def test_a_lease_is_dropped_while_another_one_is_taken() -> None:
    journal = MemoryJournal()
    lease = [session_pool.LocalLease(journal, "run")]

    def drop() -> None:
        with session_pool._lock:
            lease.clear()

    dropping = threading.Thread(target=drop, daemon=True)
    dropping.start()
    dropping.join(20)
    assert not dropping.is_alive()
    assert not session_pool.LocalLease.is_held(journal, "run")


class Slow:
    """Ends later than it is waited for."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []

    def close(self, seconds: float | None = None) -> bool:
        self.waits.append(seconds)
        return seconds is None


class Broken:
    """Fails when it is to end."""

    def close(self, seconds: float | None = None) -> bool:
        raise OSError("broken")


class Journal:
    pass


def test_a_thread_that_has_not_ended_in_time_is_waited_for_at_the_exit() -> None:
    slow, journal = Slow(), Journal()
    end_when_dropped(journal, slow)
    del journal
    gc.collect()
    assert slow.waits == [dropped_journals.SECONDS_TO_WAIT]
    dropped_journals._end_all()
    assert slow.waits[1:] == [None]
    dropped_journals._end_all()
    assert slow.waits[2:] == []


def test_a_closed_journal_is_not_closed_again() -> None:
    slow, journal = Slow(), Journal()
    finalizer = end_when_dropped(journal, slow)
    close_now(finalizer)
    close_now(finalizer)
    assert not finalizer.alive
    kept = weakref.ref(journal)
    del journal
    gc.collect()
    assert kept() is None
    assert slow.waits == [None]


def test_a_journal_that_cannot_end_keeps_no_other_from_its_end() -> None:
    slow, broken, journal = Slow(), Broken(), Journal()
    finalizers = [end_when_dropped(journal, one) for one in (broken, slow)]
    with pytest.raises(OSError, match="broken"):
        dropped_journals._end_all()
    assert slow.waits == [None]
    dropped_journals._open.discard(broken)
    for finalizer in finalizers:
        finalizer.detach()


@pytest.mark.slow  # takes half a second or more
def test_a_dropped_file_can_be_opened_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused while the thread of the dropped journal has it."""
    monkeypatch.setattr(dropped_journals, "SECONDS_TO_WAIT", 20.0)
    for _ in range(20):
        journal = SqliteJournal(tmp_path / "talk.db")
        del journal
        gc.collect()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_journal_that_had_an_inbox_is_forgotten(kind: str, tmp_path: Path) -> None:
    async def use() -> list[ref[object]]:
        journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "talk.db")
        agent = Agent(ScriptedModel("Hello."), name="greeter", journal=journal)
        run = await agent.submit("Hi.")
        async with Worker(agent):
            assert (await run.wait(20)).text == "Hello."
            async for _ in run.events():
                pass
        shared = journal._tenants if isinstance(journal, MemoryJournal) else journal._writer
        return [ref(journal), ref(shared)]

    left = await use()
    gc.collect()
    assert [one() for one in left] == [None, None]
