"""A process that starts or continues a run, and kills itself at a given append.

It is a fork of a process that has imported everything, so it starts quickly.
"""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.crash.marked_runs import TALKS, agent_for, mark, prompt

from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.journal.journal_errors import LeaseLostError
from holdfast.journal.port import Journal
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.postgres.postgres_renewal import LeaseState
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

LEASE = 0.3  # seconds
LOST = 3  # the exit status of a process when another process drives the run


@dataclass(frozen=True)
class Job:
    """A run, and the places of its marks.

    Args:
        talk: the kind of run.
        run: its name.
        journal: the file.
        base_url: of the provider.
        api_key: the account at the provider.
        address: the address of a shared journal; without one the file is used.
    """

    talk: str
    run: str
    journal: Path
    base_url: str
    api_key: str = "any"
    address: str = ""

    def file(self, what: str) -> Path:
        """Return the path of `marks`, `acks`, `kept`, `end`, `said` or `error` of this run."""
        return self.journal.with_name(f"{self.run}.{what}")


@dataclass(frozen=True)
class Death:
    """The number of the append, from 1, at which the process kills itself, and whether before or after it."""

    append: int
    before: bool


class Deadly:
    """Writes down the acknowledged appends, and kills the process at one of them."""

    def __init__(self, job: Job, death: Death | None) -> None:
        self._acks = str(job.file("acks"))
        self._death = death
        self._appends = 0

    def before(self) -> int:
        """Count an append that begins, and return its number, from 1."""
        self._appends += 1
        self._die(Death(self._appends, before=True))
        return self._appends

    def after(self, saved: tuple[Event, Event | None], number: int) -> None:
        """Write down an append that was acknowledged."""
        for event in filter(None, saved):
            mark(self._acks, f"{event.key} {os.getpid()}")
        self._die(Death(number, before=False))

    def _die(self, now: Death) -> None:
        if now == self._death:
            os.kill(os.getpid(), signal.SIGKILL)


class DeadlyFile(SqliteJournal):
    def __init__(self, job: Job, deadly: Deadly) -> None:
        super().__init__(job.journal, wait=10.0)
        self._deadly = deadly

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        number = self._deadly.before()
        await super().append(run, event, effect, marker=marker)
        self._deadly.after((event, marker), number)


class DeadlyDatabase(PostgresJournal):
    def __init__(self, job: Job, deadly: Deadly) -> None:
        super().__init__(job.address, lease=LEASE)
        self._deadly = deadly

    async def _append_event(
        self,
        run: str,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
        *,
        lease: LeaseState | None,
        act: Act | None,
    ) -> None:
        number = self._deadly.before()
        await super()._append_event(run, event, effect, marker, lease=lease, act=act)
        self._deadly.after((event, marker), number)


def live(job: Job, death: Death | None) -> int:
    """Drive the run to its end. Return 0, or LOST if another process took over."""
    try:
        asyncio.run(_live(job, death))
    except LeaseLostError:
        return LOST
    except BaseException:  # noqa: BLE001  # REASON: nobody is above a fork
        job.file("error").write_text(traceback.format_exc())
        return 1
    return 0


async def _live(job: Job, death: Death | None) -> None:
    talk = TALKS[job.talk]
    deadly = Deadly(job, death)
    with DeadlyDatabase(job, deadly) if job.address else DeadlyFile(job, deadly) as journal:
        marks = str(job.file("marks"))
        agent = agent_for(talk, job, journal)
        if await _note(journal, job, "kept"):
            result = await agent.resume(job.run, deps=marks)
        else:
            asked = prompt(talk, marks)
            async with agent.stream(asked, session=job.run, deps=marks) as run:
                result = await run.wait()
        await _note(journal, job, "end")
        _write(job.file("said"), msgspec.json.encode(result.messages).decode())


async def _note(journal: Journal, job: Job, what: str) -> int:
    """Write down the keys that the journal has now."""
    kept = [record.event.key for record in await journal.read(job.run)]
    _write(job.file(what), "\n".join(kept))
    return len(kept)


def _write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    beside = path.with_suffix(f"{path.suffix}.{os.getpid()}")
    beside.write_text(text)
    beside.rename(path)
