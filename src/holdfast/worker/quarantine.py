"""The quarantine: a turn whose workers die is driven alone, so that it takes no other turn with it.

While a worker drives several turns, it is unknown of which one it died. So a turn whose workers have died some
times is driven by a worker that has handed back its others, and that takes none until the turn rests. If
that one dies too, only this turn can be the reason. This module must never decide that a worker is dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Annotated

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeFloat, between
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.journal_errors import JournalError

_PAUSE = 0.5  # seconds before the inbox is asked again that could not be used
_SECONDS_BETWEEN_LOOKS = 1.0

_log = logging.getLogger("holdfast.worker")


class QuarantineOptions(Struct, frozen=True, kw_only=True):
    """When a turn is driven alone, and when it is parked.

    A worker has died if its heartbeats end without an orderly stop: its process is gone, or it has lost its
    leases.

    Args:
        deaths_in_company: how many workers may die that drive a turn beside others; then it is driven alone.
        deaths_alone: how many workers may die that drive it alone; then it is parked.
        drain_seconds: how long a worker waits for its other turns to end before it hands them back to
            drive one alone.
        ends_when_blocked: whether the process ends itself when its event loop is blocked for longer than
            a lease of the journal lasts; None lets only `Worker.run()` and `holdfast worker` do so.

    Raises:
        ConfigurationError: a setting is wrong.

    >>> QuarantineOptions().deaths_in_company
    2
    """

    deaths_in_company: Annotated[int, between(1, 1_000_000)] = 2
    deaths_alone: Annotated[int, between(1, 1_000_000)] = 2
    drain_seconds: NonNegativeFloat = 60.0
    ends_when_blocked: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self, "quarantine.")


class Quarantine:
    """The quarantine of one worker: at most one entry at a time. It belongs to one event loop.

    Args:
        tenants: the turns of the worker.
        inbox: learns that a turn is driven alone.
        slots: the slots of the worker, of which none is free meanwhile.
        options: when it is needed.
    """

    def __init__(
        self, tenants: ServiceTenants, inbox: Inbox, slots: JobSlots, options: QuarantineOptions
    ) -> None:
        self._tenants = tenants
        self._inbox = inbox
        self._slots = slots
        self._options = options
        self._changed = asyncio.Event()
        self.entry: InboxEntry | None = None
        """The entry that is driven alone, or is about to be."""

    def is_needed(self, entry: InboxEntry) -> bool:
        """Whether an entry must be driven alone; one that is only to be closed need not be."""
        is_closed_only = bool(entry.parking) or entry.cancelled_by is not None
        is_suspect = entry.deaths >= self._options.deaths_in_company
        return is_suspect and not is_closed_only and entry.deaths_alone < self._options.deaths_alone

    def note_change(self) -> None:
        """Look again whether the worker drives anything else: a turn has ended, or the worker stops."""
        self._changed.set()

    def begin(self, entry: InboxEntry) -> None:
        """Let the worker take nothing else from now on."""
        _log.warning("the turn %d is driven alone: %d workers died", entry.id, entry.deaths)
        self.entry = entry
        self._slots.pause()

    def end(self) -> None:
        """Let the worker take others again."""
        self.entry = None
        self._slots.resume()

    async def wait_until_alone(
        self,
        entry: InboxEntry,
        handled: Mapping[int, InboxEntry],
        is_stopping: Callable[[], bool],
    ) -> InboxEntry | None:
        """Return the entry as it is once the worker drives nothing else; wait for the inbox where needed.

        None says that it must be handed back: the worker stops, or has lost it.

        Args:
            entry: the entry.
            handled: the entries that the worker has now, by their numbers.
            is_stopping: whether the worker stops.
        """
        while True:
            await self._drain(entry, handled, is_stopping)
            if is_stopping():
                return None
            try:
                return await self._inbox.isolate(entry.id, entry.worker)
            except JournalError as error:
                _log.warning("a turn waits for the inbox: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _drain(
        self,
        entry: InboxEntry,
        handled: Mapping[int, InboxEntry],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Return once no other turn is driven: those that do not end in time are handed back."""
        seconds: float = self._options.drain_seconds
        leaving: set[asyncio.Task[None]] = set()
        while (others := [one for one in handled.values() if one.id != entry.id]) and (
            not is_stopping()
        ):
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                seconds = _SECONDS_BETWEEN_LOOKS  # a turn that has just begun is left then
                for other in others:
                    runner = self._tenants.for_tenant(other.tenant).runner
                    driven = runner.find(other.session)
                    if driven is not None and not driven.is_left:
                        task = asyncio.create_task(driven.leave(self._options.drain_seconds))
                        leaving.add(task)
                        task.add_done_callback(leaving.discard)
