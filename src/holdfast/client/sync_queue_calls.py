"""The calls of `SyncClient` that are about the queue and its schedules: those of `Client`, driven."""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.journal.inbox.entries import EntryState
from holdfast.runtime.sync_bridge import run_blocking
from holdfast.server.api.queue_views import (
    EntryPage,
    EntryView,
    QueueView,
    ScheduleList,
    ScheduleView,
    TickList,
)
from holdfast.server.api.request_bodies import NewSchedule


class SyncQueueCalls:
    """The calls of `Client.queue`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._queue = client.queue

    def overview(self) -> QueueView:
        """Read how many turns are queued and run, how long they wait, and their limits."""
        return run_blocking(self._queue.overview())

    def entries(
        self,
        *,
        state: EntryState | str | None = None,
        session: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> EntryPage:
        """List submitted turns, the latest first."""
        found = self._queue.entries(
            state=state, session=session, agent=agent, limit=limit, before=before
        )
        return run_blocking(found)

    def read(self, entry: int) -> EntryView:
        """Read a submitted turn."""
        return run_blocking(self._queue.read(entry))

    def retry(self, entry: int) -> EntryView:
        """Queue a turn again that failed, is parked or was dropped."""
        return run_blocking(self._queue.retry(entry))

    def drop(self, entry: int) -> EntryView:
        """Take a turn out that has not begun or that failed."""
        return run_blocking(self._queue.drop(entry))

    def cancel(self, entry: int) -> EntryView:
        """Cancel a submitted turn, wherever it is driven."""
        return run_blocking(self._queue.cancel(entry))

    def pause(self) -> QueueView:
        """Begin no more turns; those in progress go on."""
        return run_blocking(self._queue.pause())

    def drain(self) -> QueueView:
        """Accept no more turns; queued ones are done."""
        return run_blocking(self._queue.drain())

    def resume(self) -> QueueView:
        """Begin and accept turns again."""
        return run_blocking(self._queue.resume())


class SyncScheduleCalls:
    """The calls of `Client.schedules`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._schedules = client.schedules

    def list(self) -> ScheduleList:
        """List the schedules, by name."""
        return run_blocking(self._schedules.list())

    def put(self, schedule: NewSchedule) -> ScheduleView:
        """Make a schedule, or replace the one with its name."""
        return run_blocking(self._schedules.put(schedule))

    def pause(self, name: str) -> ScheduleView:
        """Let a schedule submit no turns."""
        return run_blocking(self._schedules.pause(name))

    def resume(self, name: str) -> ScheduleView:
        """Let a schedule submit turns from now on."""
        return run_blocking(self._schedules.resume(name))

    def run(self, name: str, *, request: str = "") -> EntryView:
        """Submit a turn of a schedule at once."""
        return run_blocking(self._schedules.run(name, request=request))

    def history(self, name: str, *, limit: int = 50) -> TickList:
        """List what became of the latest ticks, the latest first."""
        return run_blocking(self._schedules.history(name, limit=limit))

    def delete(self, name: str) -> None:
        """Delete a schedule and its history."""
        run_blocking(self._schedules.delete(name))
