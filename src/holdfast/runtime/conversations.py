"""Sessions that are open in this process: one machine each, and one turn of each at a time.

A machine kept here is only a shortcut for folding its journal again, so it may be dropped at any
moment; it must never be the only place where something is known.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.effects import digest
from holdfast.core.errors import ReplayMismatchError
from holdfast.core.machine import RunMachine
from holdfast.core.output import OutputType
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal, Record
from holdfast.middleware.chain import Chain
from holdfast.middleware.folds import Folds

_MOST_OPEN = 1000


class _Open:
    """One session: its machine, what middlewares remember, and who waits for it or holds it."""

    __slots__ = ("folds", "lock", "machine", "users")

    def __init__(self, machine: RunMachine, folds: Folds | None) -> None:
        self.machine = machine
        self.folds = folds
        self.lock = asyncio.Lock()
        self.users = 0


class Conversations:
    """The open sessions of one agent, least recently used first."""

    __slots__ = ("_chain", "_open", "_output", "journal")

    def __init__(
        self, journal: Journal, output: OutputType | None, chain: Chain | None = None
    ) -> None:
        self._chain = chain
        self.journal = journal
        self._output = output
        self._open: OrderedDict[str, _Open] = OrderedDict()

    @asynccontextmanager
    async def turn(self, session: str) -> AsyncIterator[_Open]:
        """The session, caught up with its journal; a second turn waits for the first."""
        entry = self._open.get(session)
        if entry is None:
            entry = self._open[session] = _Open(*self._fresh())
        self._open.move_to_end(session)
        entry.users += 1
        try:
            async with entry.lock:
                await self._catch_up(session, entry)
                try:
                    yield entry
                finally:
                    if entry.machine.phase is not Phase.IDLE:
                        self._forget(session)
        finally:
            entry.users -= 1
            self._trim()

    def _fresh(self) -> tuple[RunMachine, Folds | None]:
        folds = self._chain.new_folds() if self._chain else None
        return RunMachine(output=self._output), folds

    async def _catch_up(self, session: str, entry: _Open) -> None:
        known = entry.machine.applied
        # The last known record is read again: without it, the session was deleted meanwhile.
        kept = await self.journal.read(session, max(known - 1, 0))
        if known and not kept:
            entry.machine, entry.folds = self._fresh()
            known, kept = 0, await self.journal.read(session)
        for record in kept[1:] if known else kept:
            _check_plan(entry.machine, record)
            entry.machine.apply(record.event)
            if entry.folds is not None:
                entry.folds.apply(record.event)

    def _forget(self, session: str) -> None:
        self._open.pop(session, None)

    def _trim(self) -> None:
        if len(self._open) <= _MOST_OPEN:
            return
        for session, entry in list(self._open.items()):
            if len(self._open) <= _MOST_OPEN:
                return
            if not entry.users:
                self._forget(session)


def _check_plan(machine: RunMachine, record: Record) -> None:
    """Raise ReplayMismatchError if this effect was planned with another content than is kept."""
    if not record.digest:
        return
    for effect in machine.pending():
        if effect.key == record.event.key and digest(effect) != record.digest:
            raise ReplayMismatchError(
                f"the journal holds another content for {effect.key!r} than this agent plans: "
                "it was written by another agent, or changed by hand"
            )
