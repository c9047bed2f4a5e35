"""Opens what photos need, and does their jobs beside those of the outbox.

The jobs of photos have a worker of their own, so that a slow model delays no message to a parent. This
module must never decide anything about a photo.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from holdfast import Agent
from holdfast.errors import HoldfastError
from registration.flow.parts import Parts
from registration.flow.photo_verdicts import describe_failure, judge_photo, take_verdict
from registration.outbox.kinds import CHECK_PHOTO
from registration.outbox.worker import Worker
from registration.photos.checking import NoVerdict, PhotoDesk, Verdict, make_photo_handler
from registration.photos.cleaning import remove_leftovers
from registration.photos.converter import Converter
from registration.photos.folder import FolderStore
from registration.photos.object_store import ObjectStore, ObjectStoreError
from registration.store import StoreError

LEASE: Final = 15.0
"""Seconds after which the job of a process that was killed is done by another."""
CLEAN_EVERY: Final = 600.0

_log = logging.getLogger("registration")


class Photos(Struct, frozen=True, kw_only=True):
    """What the routes of photos work with.

    Args:
        objects: where the files are.
        worker: does the jobs.
    """

    objects: ObjectStore
    worker: Worker

    async def discard(self, names: Iterable[str]) -> None:
        """Remove uploads; what cannot be removed now is left to the cleaning."""
        with suppress(ObjectStoreError):
            await self.objects.remove(names)


@asynccontextmanager
async def open_photos(parts: Parts, agent: Agent[Any]) -> AsyncIterator[Photos]:
    """Open the object store and do the jobs of photos until the end.

    Args:
        parts: the database, and the settings.
        agent: looks at photos.
    """
    objects = FolderStore(parts.settings.photo_folder)

    async def judge(session: str, picture: bytes) -> Verdict:
        try:
            found = await judge_photo(agent, session, picture)
        except HoldfastError as error:
            raise NoVerdict(describe_failure(error)) from None
        return Verdict(found.acceptable, found.reason)

    desk = PhotoDesk(
        database=parts.database,
        objects=objects,
        converter=Converter(),
        judge=judge,
        take_verdict=take_verdict,
        now=parts.now,
    )
    handlers: Mapping[str, Any] = {CHECK_PHOTO: make_photo_handler(desk)}
    worker = Worker(parts.database, handlers, parts.now, lease=LEASE)
    tasks = [
        asyncio.create_task(worker.run(), name="registration-photos"),
        asyncio.create_task(_clean(parts, objects), name="registration-photos-cleaning"),
    ]
    try:
        yield Photos(objects=objects, worker=worker)
    finally:
        worker.stop()
        for task in tasks:  # what was being done is done by another, after its lease
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await objects.close()


async def _clean(parts: Parts, objects: ObjectStore) -> None:
    while True:
        try:
            await remove_leftovers(parts.database, objects, parts.now())
        except (StoreError, ObjectStoreError) as error:
            _log.warning("files that are not needed were not removed: %s", error)
        await asyncio.sleep(CLEAN_EVERY)
