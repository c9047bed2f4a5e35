"""Upkeep: the work of each hour, by every process or by one; twice does no harm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

from registration.club.time_zone import LONDON
from registration.outbox.chasing import chase
from registration.store import Database, StoreError
from registration.store.deletion import delete_empty_sessions
from registration.store.photo_jobs import expire_photos

HOUR: Final = 3600.0
DAYTIME: Final = range(9, 20)  # hours in London at which parents are written to
PHOTO_EXPIRED: Final = (
    "Sorry, we could not check the photo in time. Please send it again with the + button."
)

_log = logging.getLogger(__name__)


class Upkeep:
    """Chases payments in the daytime, ends photo jobs that nobody could do, and deletes empty sessions.

    Args:
        database: the database.
        clock: returns the time in seconds since 1970.
        remove_files: removes files of these names from the object store.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        remove_files: Callable[[tuple[str, ...]], Awaitable[None]],
    ) -> None:
        self._database = database
        self._clock = clock
        self._remove_files = remove_files
        self._stopped = asyncio.Event()

    async def run(self, every: float = HOUR) -> None:
        """Do the upkeep now and then, until `stop` is called.

        Args:
            every: seconds between two times.
        """
        while not self._stopped.is_set():
            try:
                await self.run_once()
            except StoreError as error:
                _log.warning("the upkeep waits: %s", error)
            except Exception as error:  # noqa: BLE001 -- a failed part may succeed the next time
                # Its message may quote personal data.
                _log.error("the upkeep failed with %s", type(error).__name__)
            with suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._stopped.wait()

    def stop(self) -> None:
        """Let `run` return."""
        self._stopped.set()

    async def run_once(self) -> None:
        """Do the upkeep now.

        Raises:
            DatabaseUnavailable: the next time does the rest.
        """
        now = self._clock()
        await self._database.transact(lambda tx: delete_empty_sessions(tx, now))
        if datetime.fromtimestamp(now, LONDON).hour in DAYTIME:
            await self._database.transact(lambda tx: chase(tx, now))
        files = await self._database.transact(lambda tx: expire_photos(tx, PHOTO_EXPIRED, now))
        if files:
            await self._remove_files(files)
