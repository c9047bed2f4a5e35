"""Whether the process that has a lease is still there: the server knows at once when a session ends.

A process that serves or works holds a lock in a session of its own, whose number is in the owner of its leases.
If the lock is missing for some seconds, and nothing renews the lease meanwhile, the process has ended, and others
need not wait until the lease runs out. Where a session cannot be seen, the lease decides as before: the machine
was lost, the process is stopped and not dead, or it had no such session when the lease began. This module must never
end a lease itself: a statement does, which looks at the lock and at the renewals again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import psycopg

from holdfast.journal.journal_errors import JournalError
from holdfast.resilience.system_clock import new_run_id

SECONDS_UNSEEN = 5.0
"""How long a session must be missing, without a sign of life, until its process has ended."""

_LONGEST_GAP = 3.0
"""Seconds without a look after which nothing is known any more: the server may have been away."""

_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_TO_ANSWER = 2.0
_SECONDS_TO_OPEN = 2.0  # below `SECONDS_UNSEEN`, since leases are renewed between two tries
_PAUSE = 0.25

MARK: Final = b"hf1\0"
"""The beginning of an owner that has the number of a session. Owners of earlier versions are random."""

_NUMBERS = r"""
  SELECT lpad(to_hex(classid::bigint), 8, '0') || lpad(to_hex(objid::bigint), 8, '0')
  FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_IS_LEASE_UNSEEN = rf"""
  turn_open AND token IS NOT NULL AND expires > clock_timestamp()
  AND substring(owner from 1 for 4) = '\x68663100'::bytea
  AND encode(substring(owner from 5 for 8), 'hex') NOT IN ({_NUMBERS})
"""
_IS_WORKER_UNSEEN = rf"""
  (info::jsonb ->> 'presence') <> ''
  AND left(info::jsonb ->> 'presence', 16) NOT IN ({_NUMBERS})
"""

UNSEEN: Final = rf"""
SELECT 'lease', token::text, expires::text FROM holdfast_runs WHERE {_IS_LEASE_UNSEEN}
UNION ALL
SELECT 'worker', id, seen_at::text FROM holdfast_workers
WHERE alive_until > extract(epoch FROM clock_timestamp()) AND {_IS_WORKER_UNSEEN}
"""  # noqa: S608  # REASON: made of constants; values are parameters
"""The leases and the workers whose session is missing, each with its last sign of life."""

END_LEASES: Final = rf"""
UPDATE holdfast_runs AS r SET expires = clock_timestamp()
FROM unnest(%(names)s::text[], %(signs)s::text[]) AS gone (name, sign)
WHERE r.token = gone.name::bigint AND r.expires = gone.sign::timestamptz AND {_IS_LEASE_UNSEEN}
RETURNING r.token
"""  # noqa: S608  # REASON: as above

END_WORKERS: Final = rf"""
UPDATE holdfast_workers AS w SET alive_until = w.seen_at
FROM unnest(%(names)s::text[], %(signs)s::text[]) AS gone (name, sign)
WHERE w.id = gone.name AND w.seen_at = gone.sign::float8 AND {_IS_WORKER_UNSEEN}
RETURNING w.id
"""  # noqa: S608  # REASON: as above

_HOLD_LOCK: Final = "SELECT pg_advisory_lock_shared(%(number)s)"

K = TypeVar("K")


class Departures(Generic[K]):
    """Since when holders have been missing, as one process sees it.

    Args:
        seconds: how long one must be missing without a sign of life.

    >>> departures = Departures[str](5.0)
    >>> [departures.note(now, {"ada": "12:00"}) for now in (0.0, 2.0, 4.0, 5.0)]
    [[], [], [], ['ada']]
    """

    def __init__(self, seconds: float = SECONDS_UNSEEN) -> None:
        self._seconds = seconds
        self._since: dict[K, tuple[float, object]] = {}
        self._last = float("-inf")

    def note(self, now: float, missing: Mapping[K, object]) -> list[K]:
        """Return those of the missing that have ended.

        Args:
            now: a clock in seconds that does not go back.
            missing: the holders that are missing now, with their last signs of life.
        """
        if now - self._last > _LONGEST_GAP:
            self._since.clear()
        self._last = now
        before, self._since = self._since, {}
        for name, sign in missing.items():
            since, last_sign = before.get(name, (now, sign))
            self._since[name] = (since, sign) if sign == last_sign else (now, sign)
        return [name for name, (since, _) in self._since.items() if now - since >= self._seconds]


class Presence:
    """The session by which others see that this process is there. It belongs to the thread of the journal.

    Args:
        connect: opens a session.
        renew: renews the leases of the process, as a sign of life while it has no session.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        self._connect = connect
        self._renew = renew
        self._numbers = itertools.count()
        self.process = new_run_id()
        """Names this process; its first 16 digits are the number of its lock."""
        self.is_seen = False
        """Whether the lock is held, as far as is known."""
        self.is_kept = False
        """Whether `keep` was started."""

    @property
    def _number(self) -> bytes:
        return bytes.fromhex(self.process[:16])

    def make_owner(self) -> bytes:
        """Return the owner of a new lease: with the number of the session, if there is one."""
        if not self.is_seen:
            return os.urandom(16)
        return MARK + self._number + (next(self._numbers) % (1 << 32)).to_bytes(4)

    async def keep(self) -> None:
        """Hold the lock until cancelled, in a new session when one is lost."""
        while True:
            with suppress(psycopg.Error, OSError, TimeoutError, JournalError):
                async with asyncio.timeout(_SECONDS_TO_OPEN):
                    connection = await self._connect()
                try:
                    await self._hold(connection)
                finally:
                    self.is_seen = False
                    await connection.close()
            with suppress(JournalError):
                await self._renew()
            await asyncio.sleep(_PAUSE)

    async def _hold(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Hold the lock until the session is lost."""
        number = {"number": int.from_bytes(self._number, signed=True)}
        async with asyncio.timeout(_SECONDS_TO_ANSWER):
            await connection.execute(_HOLD_LOCK, number)
        self.is_seen = True
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            async with asyncio.timeout(_SECONDS_TO_ANSWER):
                await connection.execute("SELECT 1")
