"""Simulates a crash of the process at a chosen append, for exhaustive tests of recovery.

The crash is a BaseException, so the runtime cannot catch it and clean up. Records that were appended
before it stay in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.journal.port import Journal, Record, RunEntry


class SimulatedCrash(BaseException):
    """The simulated process has crashed."""


class CrashAt:
    """A journal that dies right after, or right before, it saves its n-th record.

    An event and its marker are one append: the journal dies after both or before both.

    Args:
        journal: the one that keeps the records.
        append: which record, from 1.
        before: die before the record is kept: what it tells of has happened, and nobody knows.
    """

    @check_arguments
    def __init__(self, journal: Journal, append: PositiveInt, *, before: bool = False) -> None:
        self._journal = journal
        self._left = append
        self._before = before
        self._dead = False

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save, and die when it is time; a dead process saves nothing more."""
        left = self._left
        self._left -= 1 if marker is None else 2
        last = self._left <= 0 < left  # others may come while this one waits
        if self._dead or (last and self._before):
            self._die()
        await self._journal.append(run, event, effect, marker=marker, act=act)
        if last or self._dead:
            self._die()

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of a run."""
        return await self._journal.read(run, after)

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs."""
        return await self._journal.runs(turn_open=turn_open)

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs."""
        return await self._journal.delete(*runs, act=act)

    async def save_act(self, act: Act) -> None:
        """Save an act."""
        await self._journal.save_act(act)

    async def find_act(self, act_id: str) -> Act | None:
        """Return the act with this id."""
        return await self._journal.find_act(act_id)

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        """Return the latest acts on a session."""
        return await self._journal.list_acts(session, limit)

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save whole runs."""
        await self._journal.restore(runs, act=act)

    async def find_request(self, request: str) -> tuple[str, str] | None:
        """Return the turn with this request."""
        return await self._journal.find_request(request)

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        """Return the requests from one to another."""
        return await self._journal.find_requests(first, last)

    @property
    def tenant(self) -> str:
        """The tenant of the journal."""
        return self._journal.tenant

    def for_tenant(self, tenant: str) -> NoReturn:
        """Only the process of one tenant is simulated."""
        raise NotImplementedError(tenant)

    def _die(self) -> None:
        self._dead = True
        raise SimulatedCrash("the simulated process has crashed")
