"""The journal port: append-only storage with one record per key of a run.

A journal must never change, reorder or drop a record. It must refuse a second record with the same
run and key, so that two drivers of one run cannot both continue. Only whole runs may be deleted. A
journal object belongs to one tenant, and sees and changes only the runs of that tenant. A
journal that several processes share provides leases; a journal of a single process needs none.
`holdfast.testing.journal_conformance` tests these rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

from msgspec import Struct

from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.events import Event

MOST_REQUESTS = 1_000
"""The number of requests that `Journal.find_requests` returns at most."""


class Record(Struct, frozen=True):
    """One record: an event, and the digest of the effect that it ends ("" if it ends none)."""

    event: Event
    digest: str = ""


class RunEntry(Struct, frozen=True):
    """A run in the list of a journal.

    Args:
        run: its name.
        records: the number of its records.
        opened_at: its earliest time, in seconds since the epoch.
        changed_at: its latest time, in seconds since the epoch.
        turn_open: whether its last turn has not ended: it is running, or its process died.
        agent: the name of the agent that opened the last turn.
        leased: whether a driver has a lease of it that has not expired.
    """

    run: str
    records: int
    opened_at: float
    changed_at: float
    turn_open: bool = False
    agent: str = ""
    leased: bool = False


class RunLog(Protocol):
    """The part of a journal that the driver of a run uses."""

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save one event, or an event and its marker; returns when they are saved.

        An event and its marker are saved in one transaction: both or neither, the marker directly
        after the event. When an append is cancelled, it raises CancelledError only after it has
        ended: its records are then saved or not, as `read` shows, and nothing is saved later.

        Args:
            run: the run.
            event: the event.
            effect: the effect that the event ends, whose digest is saved; None if it ends none.
            marker: an event that follows at once: the begin of the tools, or the end of the turn. No
                digest is saved with it.
            act: the act that writes the event, saved in the same transaction.

        Raises:
            ConflictError: the run has an outcome for one of these keys already.
            RequestExistsError: another turn has the request of this one, or another act the id.
            SessionBusyError: another driver has a lease of the run.
            LeaseLostError: this is a lease, and another driver has taken over.
            JournalError: it could not be saved.
        """
        ...

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`; none if it is unknown.

        Raises:
            JournalCorruptError: a record was changed or is missing; the error names it.
        """
        ...


@runtime_checkable
class Journal(RunLog, Protocol):
    """Stores the events of the runs of one tenant."""

    @property
    def tenant(self) -> str:
        """The tenant of the runs; "" for a journal that was opened without naming one."""
        ...

    def for_tenant(self, tenant: str) -> Self:
        """Return the journal of another tenant in the same store; the same object if there is one.

        Raises:
            ConfigurationError: the name is invalid.
        """
        ...

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs, sorted by name.

        Args:
            turn_open: return only the runs whose last turn has not ended.
        """
        ...

    async def find_request(self, request: str) -> tuple[str, str] | None:
        """Return run and key of the turn that was opened with this request; None if none was."""
        ...

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        """Return the requests from one to another that turns were opened with, at most `MOST_REQUESTS`.

        They are compared by their code points, and sorted.
        """
        ...

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save these runs with exactly these records: either all of them or, on failure, none.

        A request that another turn has stays with that turn. An act is saved with the runs.

        Raises:
            ConflictError: one of the runs already has records.
            RequestExistsError: another act has the id of this one.
            JournalError: they could not be saved.
        """
        ...

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs permanently, all or none; return the number of their records.

        Their requests are free again, and the acts on sessions of these names are deleted. The act
        that deletes them is saved, and stays.

        Raises:
            RequestExistsError: another act has the id of this one.
        """
        ...

    async def save_act(self, act: Act) -> None:
        """Save an act that writes nothing else, or that is saved before it is performed.

        Raises:
            RequestExistsError: another act has the id of this one.
        """
        ...

    async def find_act(self, act_id: str) -> Act | None:
        """Return the act with this id."""
        ...

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        """Return the latest acts on a session, the oldest of them first."""
        ...


@runtime_checkable
class CountsBytes(Protocol):
    """A journal that knows how much it stores for its tenant, without reading the records."""

    async def count_bytes(self, run: str = "") -> int:
        """Return the bytes of the events of all runs, with their media, and of the queued turns.

        Args:
            run: count only the events of this run.
        """
        ...


class Lease(RunLog, Protocol):
    """The right of one driver to append to a run, until `release` or until it expires.

    The journal renews the lease while its process is alive. Until the lease has expired and another
    driver has taken over, nobody else can append to the run. After that, each append through the
    lease raises LeaseLostError, even if its process was only paused: the transaction of an append
    compares `token`, the fencing token, and each later lease of a run has a greater token.
    """

    @property
    def run(self) -> str:
        """The claimed run."""
        ...

    @property
    def token(self) -> int:
        """The fencing token."""
        ...

    async def release(self) -> None:
        """End the lease. A second call does nothing, and errors of the journal are ignored."""
        ...


@runtime_checkable
class VersionedLease(Lease, Protocol):
    """A lease that knows which state of the run it was given for."""

    @property
    def version(self) -> tuple[int, int]:
        """The id of the run, which no other run ever has, and the number of its records."""
        ...


@runtime_checkable
class VisibleProcesses(Protocol):
    """A shared journal that knows whether the processes are there that use it."""

    @property
    def process(self) -> str:
        """Names this process for others, once `show_process` was called."""
        ...

    def show_process(self) -> None:
        """Let other processes see from now on that this one is there."""
        ...

    async def end_departed(self) -> bool:
        """End the leases of processes that have ended; called about each second.

        Returns:
            Whether there was one.

        Raises:
            JournalError: the journal cannot be reached.
        """
        ...


@runtime_checkable
class SharedJournal(Journal, Protocol):
    """A journal that several processes may use at the same time."""

    @property
    def lease_seconds(self) -> float:
        """Seconds without renewal after which another process may take over a run."""
        ...

    async def claim(self, run: str) -> Lease:
        """Claim a run for one driver. A cancelled call leaves no lease.

        Raises:
            SessionBusyError: another driver has a lease of the run.
            JournalError: the journal cannot be reached.
        """
        ...

    def prepare_lease(self, run: str, version: tuple[int, int]) -> Lease:
        """Return a lease for one turn: it begins with its first append, and ends with a TurnClosed.

        Each of the two is one transaction with the records of that append. The first append raises
        RunChangedError, and saves nothing, if the run has another version or another driver.

        Args:
            run: the run.
            version: the version that the driver knows; `(0, 0)` for a run without records.
        """
        ...
