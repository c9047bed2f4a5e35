"""The calls of a client that are about the queue and its schedules."""

from __future__ import annotations

from urllib.parse import quote

from holdfast.client.service_connection import Sending, ServiceConnection, call, get, post
from holdfast.journal.inbox.entries import EntryState
from holdfast.server.api.queue_views import (
    EntryPage,
    EntryView,
    QueueView,
    ScheduleList,
    ScheduleView,
    TickList,
)
from holdfast.server.api.request_bodies import NewSchedule


class QueueCalls:
    """The calls of a client about the queue of its tenant: `client.queue`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    async def overview(self) -> QueueView:
        """Read how many turns are queued and run, how long they wait, and their limits."""
        return await call(self._connection, get("/queue"), QueueView)

    async def entries(
        self,
        *,
        state: EntryState | str | None = None,
        session: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> EntryPage:
        """List submitted turns, the latest first.

        Args:
            state: only those in this state, such as "failed".
            session: only those of this session.
            agent: only those of this agent.
            limit: how many at most.
            before: the `next` of the page before.
        """
        query = {"session": session, "agent": agent, "limit": limit, "before": before}
        wanted = None if state is None else EntryState(state).value
        return await call(
            self._connection, get("/queue/entries", {**query, "state": wanted}), EntryPage
        )

    async def read(self, entry: int) -> EntryView:
        """Read a submitted turn. Raises NotFoundError."""
        return await call(self._connection, get(f"/queue/entries/{entry}"), EntryView)

    async def retry(self, entry: int) -> EntryView:
        """Queue a turn again that failed, is parked or was dropped. Raises ServiceConflictError for any other."""
        return await call(self._connection, post(f"/queue/entries/{entry}/retry"), EntryView)

    async def drop(self, entry: int) -> EntryView:
        """Take a turn out that has not begun or that failed. Raises ServiceConflictError for any other."""
        return await call(self._connection, post(f"/queue/entries/{entry}/drop"), EntryView)

    async def cancel(self, entry: int) -> EntryView:
        """Cancel a submitted turn, wherever it is driven; one that has not begun is dropped."""
        return await call(self._connection, post(f"/queue/entries/{entry}/cancel"), EntryView)

    async def pause(self) -> QueueView:
        """Begin no more turns; those in progress go on. It needs the scope admin."""
        return await call(self._connection, post("/queue/pause"), QueueView)

    async def drain(self) -> QueueView:
        """Accept no more turns; queued ones are done. It needs the scope admin."""
        return await call(self._connection, post("/queue/drain"), QueueView)

    async def resume(self) -> QueueView:
        """Begin and accept turns again. It needs the scope admin."""
        return await call(self._connection, post("/queue/resume"), QueueView)


class ScheduleCalls:
    """The calls of a client about schedules: `client.schedules`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    async def list(self) -> ScheduleList:
        """List the schedules, by name."""
        return await call(self._connection, get("/schedules"), ScheduleList)

    async def put(self, schedule: NewSchedule) -> ScheduleView:
        """Make a schedule, or replace the one with its name.

        Raises:
            InvalidRequestError: a field is wrong.
        """
        return await call(self._connection, post("/schedules", schedule), ScheduleView)

    async def pause(self, name: str) -> ScheduleView:
        """Let a schedule submit no turns."""
        return await call(self._connection, post(_path(name, "/pause")), ScheduleView)

    async def resume(self, name: str) -> ScheduleView:
        """Let a schedule submit turns from now on; those of the pause are not made up for."""
        return await call(self._connection, post(_path(name, "/resume")), ScheduleView)

    async def run(self, name: str, *, request: str = "") -> EntryView:
        """Submit a turn of a schedule at once.

        Args:
            name: the name of the schedule.
            request: an idempotency key; a second call with it gives the same turn.
        """
        return await call(self._connection, post(_path(name, "/run"), key=request), EntryView)

    async def history(self, name: str, *, limit: int = 50) -> TickList:
        """List the outcomes of the latest ticks, the latest first."""
        return await call(
            self._connection, get(_path(name, "/history"), {"limit": limit}), TickList
        )

    async def delete(self, name: str) -> None:
        """Delete a schedule and its history. Turns that were submitted stay."""
        await self._connection.send(Sending(method="DELETE", path=_path(name)))


def _path(name: str, rest: str = "") -> str:
    return f"/schedules/{quote(name, safe='')}{rest}"
