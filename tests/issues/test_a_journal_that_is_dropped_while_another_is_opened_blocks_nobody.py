"""A journal that the garbage collector dropped in the thread of one that was being opened stopped all journals for ever.

The finalizer waited there for the thread of the dropped journal, which waited for the lock that the other one held.
"""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from holdfast import MemoryJournal, SqliteJournal
from holdfast.journal import dropped_journals, file_lock
from holdfast.journal.dropped_journals import close_now, end_when_dropped
from holdfast.runtime.sessions import local_lease


def drop_within(monkeypatch: pytest.MonkeyPatch, holder: list[Any]) -> None:
    """Let a journal be dropped while another one has the lock under which files are locked."""
    write = file_lock._write_record

    def write_and_drop(lock: int) -> None:
        holder.clear()
        gc.collect()
        write(lock)

    monkeypatch.setattr(file_lock, "_write_record", write_and_drop)


def test_both_end_and_the_next_one_is_opened(
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
    lease = [local_lease.LocalLease(journal, "run")]

    def drop() -> None:
        with local_lease._lock:
            lease.clear()

    dropping = threading.Thread(target=drop, daemon=True)
    dropping.start()
    dropping.join(20)
    assert not dropping.is_alive()
    assert not local_lease.LocalLease.is_held(journal, "run")


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


def test_who_has_not_ended_in_time_is_waited_for_at_the_exit() -> None:
    slow, journal = Slow(), Journal()
    end_when_dropped(journal, slow)
    del journal
    gc.collect()
    assert slow.waits == [dropped_journals.SECONDS_TO_WAIT]
    dropped_journals._end_all()
    assert slow.waits[1:] == [None]
    dropped_journals._end_all()
    assert slow.waits[2:] == []


def test_who_was_closed_is_not_closed_again() -> None:
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


def test_one_that_cannot_be_ended_keeps_no_other_from_its_end() -> None:
    slow, broken, journal = Slow(), Broken(), Journal()
    finalizers = [end_when_dropped(journal, one) for one in (broken, slow)]
    with pytest.raises(OSError, match="broken"):
        dropped_journals._end_all()
    assert slow.waits == [None]
    dropped_journals._open.discard(broken)
    for finalizer in finalizers:
        finalizer.detach()


def test_a_dropped_file_can_be_opened_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused while the thread of the dropped journal has it."""
    monkeypatch.setattr(dropped_journals, "SECONDS_TO_WAIT", 20.0)
    for _ in range(20):
        journal = SqliteJournal(tmp_path / "talk.db")
        del journal
        gc.collect()
