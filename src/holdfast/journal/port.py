"""The journal port: one outcome per key of a run, append-only.

A journal must never change, reorder or drop a record, and must never accept a second record with
the same run and key: that is what keeps two drivers of one run from both going on. A whole run may
be deleted, since people may ask for that. A journal that several processes share gives out leases;
one that belongs to a single process needs none. `holdfast.testing.journal_conformance` tests all of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.core.effects import Effect
from holdfast.core.events import Event


class Record(Struct, frozen=True):
    """One line: the event, and the fingerprint of the effect that it ends ("" for none)."""

    event: Event
    digest: str = ""


class RunEntry(Struct, frozen=True):
    """One run of a journal: how many records it has, and the earliest and the latest time in them.

    Times are in seconds since the epoch. `turn_open` says that its last turn has no end: somebody
    works on it, or its process died. `agent` is the one that opened the last turn. `leased` says
    that a living process works on it, as far as this journal can know.
    """

    run: str
    records: int
    opened_at: float
    changed_at: float
    turn_open: bool = False
    agent: str = ""
    leased: bool = False


class RunLog(Protocol):
    """What the driver of a run needs of a journal."""

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event; returns when it is kept.

        A cancelled append has ended when it raises CancelledError: the record is then kept or it
        is not, `read` says which, and nothing comes later.

        Args:
            run: the run.
            event: what happened.
            effect: what the event ends, so that its digest can be kept; None for a marker.

        Raises:
            ConflictError: the run has an outcome for this key already.
            SessionBusyError: another driver has a lease of the run.
            LeaseLostError: this is a lease, and another driver has taken over.
            JournalError: it could not be kept.
        """
        ...

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`; empty for an unknown run."""
        ...


@runtime_checkable
class Journal(RunLog, Protocol):
    """Where the facts of runs are kept."""

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """All runs, by name.

        Args:
            turn_open: only those whose last turn has no end.
        """
        ...

    async def delete(self, run: str) -> int:
        """Forget a run for good; returns how many records it had."""
        ...


Then: TypeAlias = Callable[[BaseException | None], None]
"""Called later, on the loop that handed a record over: when it is kept, or with why it could not be."""


class HandedOver(Protocol):
    """A record on its way: await it, at most once, for what `append` would have told."""

    def __await__(self) -> Generator[object, None, None]: ...


class Enqueue(Protocol):
    """Hands one event over; never waits."""

    def __call__(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        after: HandedOver | None = None,
        then: Then | None = None,
    ) -> HandedOver:
        """Hand it over.

        What nobody awaits is kept all the same. What is awaited, and cancelled, ends as `append`.

        Args:
            run: the run.
            event: what happened.
            effect: what the event ends; None for a marker.
            after: what was handed over earlier; when that cannot be kept, neither is this, and the
                error is the same.
            then: told when it is kept, before whoever awaits it goes on.

        Raises:
            ConfigurationError: `after` was handed over to another journal.
            JournalError: it cannot even be handed over.
        """
        ...


class QueueingLog(RunLog, Protocol):
    """A log that takes a record at once and says later that it is kept.

    Records are kept in the order in which they were handed over, and those that come together are
    kept together; `read` tells of all that were handed over before it. Whoever has this can prepare
    what comes next while the disk is at work; it must not be shared with other drivers of the run,
    who could not be told from this one any more.
    """

    @property
    def enqueue(self) -> Enqueue:
        """Hands over one event; a method will do."""
        ...


class Lease(RunLog, Protocol):
    """One run, for one driver at a time, until `release` or until its process is gone.

    It is renewed by itself. What was read under it stays true: nobody else can append to the run
    until the lease has run out and somebody else has taken over. From then on each append through
    it raises LeaseLostError, also when its process was only asleep and comes back: `token`, the
    fencing token, is looked at in the same transaction as the append, and a later lease of a run
    has a greater one.
    """

    @property
    def run(self) -> str:
        """The run that was claimed."""
        ...

    @property
    def token(self) -> int:
        """The fencing token."""
        ...

    async def release(self) -> None:
        """Let others have the run. May be repeated, and never raises because of the journal."""
        ...


@runtime_checkable
class SharedJournal(Journal, Protocol):
    """A journal that several processes may use at the same time."""

    async def claim(self, run: str) -> Lease:
        """Take the run for one driver.

        Cancelled, it leaves nothing claimed.

        Raises:
            SessionBusyError: a living driver has it.
            JournalError: the journal cannot be reached.
        """
        ...
