"""The live link of a PostgreSQL journal: NOTIFY for messages, and a table for acts.

One connection of the process listens, in the thread of the journal. A connection that hears nothing,
not even the process itself, is replaced. The connection holds a lock with the number of the process,
so the server knows at once when the process has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from holdfast.journal.journal_errors import JournalError
from holdfast.journal.live_link import DriverAct
from holdfast.journal.postgres.loop_thread import WithdrawnError
from holdfast.journal.postgres.postgres_pool import Connection
from holdfast.journal.postgres.postgres_server import PostgresServer
from holdfast.journal.rows import Row
from holdfast.resilience.system_clock import new_run_id

SECONDS_BETWEEN_BEATS = 5.0
"""Seconds after which the process sends a message to itself."""

_LONGEST_SILENCE = 3 * SECONDS_BETWEEN_BEATS
_SECONDS_TO_LISTEN = 5.0
_LONGEST_PAUSE = 2.0
_BEAT = ""
_OPTIONS: Final = {"application_name": "holdfast", "connect_timeout": "5"}

CHANNEL: Final = "SELECT 'holdfast_' || md5(current_schema())"
"""Journals in several schemas of one database have channels of their own."""

_NOTIFY: Final = """
SELECT count(pg_notify('holdfast_' || md5(current_schema()), message))
FROM unnest(%(messages)s::text[]) WITH ORDINALITY AS sent (message, n)
"""

_ADD_ACT: Final = """
WITH old AS (DELETE FROM holdfast_driver_acts WHERE at < now() - interval '1 hour')
INSERT INTO holdfast_driver_acts (id, tenant, session, act, body)
VALUES (%(id)s, %(tenant)s, %(session)s, %(act)s, %(body)s) ON CONFLICT DO NOTHING
"""

_FIND_ACTS: Final = """
SELECT id, session, act, body FROM holdfast_driver_acts
WHERE tenant = %(tenant)s AND session = ANY(%(sessions)s) AND result IS NULL ORDER BY at
"""

_FINISH_ACT: Final = "UPDATE holdfast_driver_acts SET result = %(result)s WHERE id = %(id)s"

_TAKE_RESULT: Final = """
DELETE FROM holdfast_driver_acts WHERE id = %(id)s AND result IS NOT NULL RETURNING result
"""

_HOLD_LOCK: Final = "SELECT pg_advisory_lock_shared(%(number)s)"

_FIND_LOCKS: Final = """
SELECT DISTINCT (classid::bigint << 32) | objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_SECONDS_TO_RETURN = 0.5
"""How long a process whose lock is missing may be making a new connection."""

_FORGET_ACT: Final = "DELETE FROM holdfast_driver_acts WHERE id = %(id)s"


class PostgresLink:
    """The link of this process; see `holdfast.journal.live_link.LiveLink`.

    Args:
        server: performs the statements.
        receive: called with each message, in the thread of the journal.
        changed: called when the link is up or down, in the thread of the journal.
    """

    def __init__(
        self,
        server: PostgresServer,
        receive: Callable[[str], None],
        changed: Callable[[bool], None],
    ) -> None:
        self._server = server
        self._receive = receive
        self._changed = changed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.process = new_run_id()
        """The name of this process, by which others ask whether it has ended."""
        self.is_up = False
        """Whether messages of other processes arrive."""
        server.thread.start(self._listen, _withdraw)

    async def send(self, messages: Sequence[str]) -> None:
        """Send messages to all processes, in order, also to this one."""
        await self._fetch(_NOTIFY, {"messages": list(messages)})

    async def add_act(self, tenant: str, act: DriverAct) -> None:
        """Save an act for the driver of a run."""
        values = {"id": act.id, "session": act.session, "act": act.act, "body": act.body}
        await self._execute(_ADD_ACT, {"tenant": tenant, **values})

    async def find_acts(self, tenant: str, sessions: Sequence[str]) -> Sequence[DriverAct]:
        """Return the acts for these runs that have no result yet."""
        rows = await self._fetch(_FIND_ACTS, {"tenant": tenant, "sessions": list(sessions)})
        return [DriverAct(*map(str, row)) for row in rows]

    async def finish_act(self, act_id: str, result: str) -> None:
        """Save the result of an act."""
        await self._execute(_FINISH_ACT, {"id": act_id, "result": result})

    async def take_result(self, act_id: str) -> str | None:
        """Return the result of an act, and forget the act; None if it has no result yet."""
        rows = await self._fetch(_TAKE_RESULT, {"id": act_id})
        return str(rows[0][0]) if rows else None

    async def forget_act(self, act_id: str) -> None:
        """Forget an act that nobody has to perform any more."""
        await self._execute(_FORGET_ACT, {"id": act_id})

    async def find_ended(self, processes: Collection[str]) -> Collection[str]:
        """Return those of some processes that have ended or have lost the journal.

        The lock of a process that makes a new connection is missing for a moment, so it is looked twice.
        """
        missing = await self._find_without_lock(processes)
        if missing:
            await asyncio.sleep(_SECONDS_TO_RETURN)
            missing = await self._find_without_lock(missing)
        return missing

    async def _find_without_lock(self, processes: Collection[str]) -> Collection[str]:
        held = {row[0] for row in await self._fetch(_FIND_LOCKS, {})}
        return [one for one in processes if _number_process(one) not in held]

    def close(self) -> None:
        """Receive no more messages."""
        self._is_closed = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the journal was closed before
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _fetch(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        return await self._server.thread.submit(
            lambda _: self._server.fetch_rows(statement, values)
        )

    async def _execute(self, statement: str, values: Mapping[str, object]) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(statement.encode(), values)

        await self._server.thread.submit(lambda begin: self._server.apply_change(work, begin))

    async def _listen(self) -> None:
        """Listen until the link or the journal is closed, on a new connection when one is lost."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        pause = 0.05
        while not self._is_closed:
            try:
                async with await psycopg.AsyncConnection.connect(
                    make_conninfo("", **{**_OPTIONS, **self._parts}),
                    autocommit=True,
                ) as connection:
                    await self._receive_all(connection)
            except (psycopg.Error, OSError, TimeoutError, JournalError):
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = 0.05
            finally:
                self._set_up(is_up=False)
            await asyncio.sleep(pause)

    @property
    def _parts(self) -> Mapping[str, Any]:
        return self._server.address.parts

    async def _receive_all(self, connection: psycopg.AsyncConnection[Any]) -> None:
        async with asyncio.timeout(_SECONDS_TO_LISTEN):
            await connection.execute(_HOLD_LOCK, {"number": _number_process(self.process)})
            row = await (await connection.execute(CHANNEL)).fetchone()
            name = sql.Identifier(str(row[0]) if row else "")
            await connection.execute(sql.SQL("LISTEN {}").format(name))
        self._set_up(is_up=True)
        last = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - last < _LONGEST_SILENCE:
            async for notice in connection.notifies(timeout=SECONDS_BETWEEN_BEATS):
                last = asyncio.get_running_loop().time()
                if notice.payload != _BEAT:
                    self._receive(notice.payload)
            # A network that loses everything reports no lost connection. The statement cannot be
            # cancelled then, and ends at its own time limit.
            sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._server.thread.start(partial(self._send_beat, sent), _withdraw)
            async with asyncio.timeout(SECONDS_BETWEEN_BEATS):
                await sent

    async def _send_beat(self, sent: asyncio.Future[None]) -> None:
        failure: JournalError | None = None
        try:
            await self._server.fetch_rows(_NOTIFY, {"messages": [_BEAT]})
        except JournalError as error:
            failure = error
        if sent.done():
            return  # it took too long
        if failure is None:
            sent.set_result(None)
        else:
            sent.set_exception(failure)  # the server refuses connections: so the link is lost, too

    def _set_up(self, *, is_up: bool) -> None:
        if is_up is not self.is_up:
            self.is_up = is_up
            self._changed(is_up)


def _number_process(process: str) -> int:
    """Return the number of the lock of a process."""
    return int.from_bytes(bytes.fromhex(process)[:8], signed=True)


def _withdraw() -> None:
    """Let `close` of the journal end the listening."""
    raise WithdrawnError
