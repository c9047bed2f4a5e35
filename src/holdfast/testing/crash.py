"""Simulates a crash of the process at a chosen append, for exhaustive tests of recovery.

The crash is a BaseException, so the runtime cannot catch it and clean up. Records that were appended
before it stay in the journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.argument_checks import check_flag, check_port
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.core.limits import check_whole
from holdfast.journal.port import Journal, Record, RunEntry


class SimulatedCrash(BaseException):
    """The simulated process has crashed."""


class CrashAt:
    """A journal that crashes directly after, or directly before, its n-th append.

    Args:
        journal: the journal that stores the records.
        append: the number of the append, from 1.
        before: crash before the record is saved: its effect has happened but is not recorded.
    """

    def __init__(self, journal: Journal, append: int, *, before: bool = False) -> None:
        check_port("journal", journal, ("append", "read", "runs", "delete"), optional=False)
        check_whole("append", append, at_least=1)
        check_flag("before", before)
        self._journal = journal
        self._left = append
        self._before = before
        self._dead = False

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Append the event, and crash if it is the chosen one; later appends crash at once."""
        self._left -= 1
        last = self._left == 0  # other appends may start while this one waits
        if self._dead or (last and self._before):
            self._die()
        await self._journal.append(run, event, effect)
        if last or self._dead:
            self._die()

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of a run."""
        return await self._journal.read(run, after)

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs."""
        return await self._journal.runs(turn_open=turn_open)

    async def delete(self, run: str) -> int:
        """Delete a run."""
        return await self._journal.delete(run)

    def _die(self) -> None:
        self._dead = True
        raise SimulatedCrash("the simulated process has crashed")
