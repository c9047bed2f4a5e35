"""The journal of a file whose thread is turned by hand: it does what the test lets it do, and no more.

Records, chains and groups are those of `SqliteJournal`; only the thread and the disk are made up.
It must never keep, fail or withdraw a record in another way than that thread would.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from holdfast import SqliteJournal
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.sqlite.opening import migrate
from holdfast.journal.sqlite.run_heads import WriterConnection
from holdfast.journal.sqlite.writer import WriterJob, _perform_group

T = TypeVar("T")

Fault = Literal["", "insert", "commit"]
"""Nothing, the first record of a group cannot be kept, or none of it."""


class Disk(WriterConnection):
    """A database in memory whose next write may fail."""

    fault: Fault = ""

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if self.fault == "insert" and sql.startswith("INSERT"):
            self.fault = ""
            raise JournalStorageError("talk.db", "the record is refused")
        if self.fault == "commit" and sql == "COMMIT":
            self.fault = ""
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *given)


class Handed:
    """A record that is being saved.

    `known` is how many records had been handed over when the turn learned that it is not saved.
    """

    def __init__(self, run: str, event: Event) -> None:
        self.run = run
        self.event = event
        self.act: WriterJob[Any] | None = None
        self.known: int | None = None

    @property
    def key(self) -> str:
        return self.event.key

    @property
    def error(self) -> BaseException | None:
        assert self.act is not None
        return self.act.error


class Unwatched:
    """In place of the checks of a file and of its log: a database in memory has neither."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: False


class CrankedWriter:
    """In place of the thread: what waits, and the group that it is at work on."""

    def __init__(self) -> None:
        self.disk = sqlite3.connect(":memory:", isolation_level=None, factory=Disk)
        migrate(self.disk, ":memory:")
        self.waiting: list[WriterJob[Any]] = []
        self.group: list[WriterJob[Any]] = []
        self.done: set[int] = set()
        self.by_hand = True
        self.on_answer: Callable[[], None] | None = None
        self.next_records: list[Handed] = []
        """Those that are submitted next."""

    def submit(self, job: WriterJob[T]) -> WriterJob[T]:
        self.waiting.append(job)
        for one in self.next_records:
            one.act = job
        self.next_records = []
        if not self.by_hand:
            asyncio.get_running_loop().call_soon(self.turn, 256)
        return job

    def take(self, most: int) -> None:
        """Begin with the first ones that wait; who was cancelled by now has taken his act back."""
        if self.group:
            return
        group, self.waiting = self.waiting[:most], self.waiting[most:]
        self.group = [act for act in group if act.claim()]

    def finish(self, fault: Fault = "") -> None:
        """Let the group end; the fault is that of its first write."""
        self.disk.fault = fault
        group, self.group = self.group, []
        while group:
            writes = group[0].writes
            same = next((n for n, act in enumerate(group) if act.writes != writes), len(group))
            _perform_group(self.disk, Unwatched(), Unwatched(), ":memory:", group[:same])
            self.done |= {id(act) for act in group[:same] if act.error is None}
            del group[:same]
        self.disk.fault = ""

    def turn(self, most: int, fault: Fault = "") -> None:
        self.take(most)
        self.finish(fault)

    def let_go(self) -> None:
        """From now on everything is kept at once."""
        self.by_hand = False
        self.finish()
        self.turn(256)

    def close(self, seconds: float | None = None) -> bool:
        self.disk.close()
        return True


class CrankedJournal(SqliteJournal):
    """A `SqliteJournal` on that writer, which knows what was handed over and what is kept."""

    def __init__(self) -> None:
        self.path = ":memory:"
        self.writer = CrankedWriter()
        self._use(self.writer)
        self.handed: list[Handed] = []

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        handed = [Handed(run, one) for one in (event, marker) if one is not None]
        self.handed += handed
        self.writer.next_records = handed
        try:
            await super().append(run, event, effect, marker=marker)
        except Exception:
            for one in handed:
                one.known = len(self.handed)
            raise

    def kept(self) -> dict[str, list[Event]]:
        """What is in the file now, by run, in order; nothing that a group has not committed."""
        found: dict[str, list[Event]] = defaultdict(list)
        done = self.writer.done
        by_key = {(one.run, one.key): one.event for one in self.handed if id(one.act) in done}
        keys = "SELECT name, key FROM records JOIN runs ON runs.id = run ORDER BY run, seq"
        for run, key in self.writer.disk.execute(keys):
            found[run].append(by_key[run, key])
        return found

    def on_the_way(self, run: str) -> list[Handed]:
        """What was handed over for a run and is neither kept nor given up."""
        busy = {id(act) for act in self.writer.group}
        busy |= {id(act) for act in self.writer.waiting if not act._claim_lock.locked()}
        return [one for one in self.handed if one.run == run and id(one.act) in busy]

    def failed(self, run: str) -> list[Handed]:
        return [one for one in self.handed if one.run == run and one.error is not None]
