"""Leases of runs in a PostgreSQL journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.journal.journal_errors import lease_lost_error
from holdfast.journal.port import Record, RunLog

if TYPE_CHECKING:
    from holdfast.journal.postgres_renewal import LeaseState


class AppendUnderLease(Protocol):
    """Saves an event, or an event and its marker."""

    async def __call__(
        self,
        run: str,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
        *,
        lease: LeaseState | None,
        act: Act | None,
    ) -> None:
        """Save as `RunLog.append`; without a lease, if no driver has one."""
        ...


Release: TypeAlias = Callable[["LeaseState"], Awaitable[None]]


class PostgresLease:
    """A lease of one run; see `holdfast.journal.port.Lease`. `PostgresJournal` creates it.

    Args:
        path: the journal, for errors.
        journal: reads the run.
        state: the state of the lease.
        append: saves an event under the lease.
        release: ends the lease.
    """

    __slots__ = ("_append", "_is_released", "_journal", "_path", "_release", "_state")

    def __init__(
        self,
        path: str,
        journal: RunLog,
        state: LeaseState,
        append: AppendUnderLease,
        release: Release,
    ) -> None:
        self._path = path
        self._journal = journal
        self._state = state
        self._append = append
        self._release = release
        self._is_released = False

    @property
    def run(self) -> str:
        """The claimed run."""
        return self._state.run

    @property
    def token(self) -> int:
        """The fencing token; 0 before a prepared lease begins."""
        return self._state.token

    @property
    def version(self) -> tuple[int, int]:
        """The id of the run, which no other run ever has, and its records when the lease began."""
        return self._state.run_id, self._state.records

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save as `PostgresJournal.append`; LeaseLostError when another driver has taken over."""
        self._check_run(run)
        if self._state.is_lost or self._is_released:
            raise lease_lost_error(self._path, run)
        await self._append(run, event, effect, marker, lease=self._state, act=act)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of the run in order, without the first `after`."""
        self._check_run(run)
        return await self._journal.read(run, after)

    async def release(self) -> None:
        """End the lease. A second call does nothing."""
        if not self._is_released:
            self._is_released = True
            if self._state.token and not self._state.is_lost:
                await self._release(self._state)

    def _check_run(self, run: str) -> None:
        if run != self.run:
            raise ConfigurationError("run", f"the lease is for {self.run!r}, not for {run!r}")

    def __repr__(self) -> str:
        return f"PostgresLease({self.run!r}, token={self.token})"
