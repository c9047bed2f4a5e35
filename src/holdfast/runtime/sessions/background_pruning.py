"""Deletes old sessions beside the turns of an agent, as its `retention` says.

It begins after the end of a turn, at most once an hour, and deletes one session after another with a
pause between them. This module must never delay a turn or let it fail.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import Context

from holdfast.core.errors import HoldfastError
from holdfast.journal.journal_errors import JournalClosedError
from holdfast.journal.retention import Retention
from holdfast.resilience.clock import Clock
from holdfast.sessions.pruning import Pruning

INTERVAL = 3600.0
"""Seconds from the end of one pruning to the next."""

PAUSE = 0.05
"""Seconds between two deletions."""

_log = logging.getLogger("holdfast")


class BackgroundPruning:
    """Prunes the journal of an agent.

    Args:
        pruning: finds and deletes the sessions.
        retention: the limits.
        clock: the agent's clock.
    """

    __slots__ = ("_clock", "_due", "_lock", "_pruning", "_retention", "task")

    def __init__(self, pruning: Pruning, retention: Retention, clock: Clock) -> None:
        self._pruning = pruning
        self._retention = retention
        self._clock = clock
        self._due = clock.monotonic()
        self._lock = threading.Lock()  # turns may end on event loops of several threads
        self.task: asyncio.Task[None] | None = None
        """The pruning in progress, or the last one."""

    def begin_if_due(self) -> None:
        """Begin in a task of the running event loop, unless it is not due yet."""
        if self._clock.monotonic() < self._due or not self._lock.acquire(blocking=False):
            return
        try:
            if self.task is None or self.task.done() or self.task.get_loop().is_closed():
                loop = asyncio.get_running_loop()
                self.task = loop.create_task(self._prune(), context=Context())
        finally:
            self._lock.release()

    async def _prune(self) -> None:
        try:
            expired = await self._pruning.find_expired(
                self._retention, measure=self._retention.bytes is not None
            )
            deleted = await self._pruning.delete_expired(expired, pause=PAUSE)
        except JournalClosedError:
            return  # the next process goes on
        except HoldfastError as error:
            _log.warning("old sessions could not be deleted: %s", error)
        else:
            if deleted:
                _log.info("%s old sessions were deleted", len(deleted))
        self._due = self._clock.monotonic() + INTERVAL
