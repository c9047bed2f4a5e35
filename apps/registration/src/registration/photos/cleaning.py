"""Files that nobody needs any more: uploads without an open job, and what a dead process left.

Finished photos are not looked at: after a restore, the database may not know the newest ones. This
module must never remove a file that may still become part of a job.
"""

from __future__ import annotations

from typing import Final

from registration.photos.naming import UPLOADS
from registration.photos.object_store import ObjectStore
from registration.store import Database
from registration.store.photo_jobs import list_open_uploads

GRACE: Final = 600.0  # seconds; an upload takes at most two minutes, and then its job is stored


async def remove_leftovers(database: Database, objects: ObjectStore, now: float) -> int:
    """Remove them, and return how many there were.

    Args:
        database: where the jobs are.
        objects: where the files are.
        now: seconds since 1970.

    Raises:
        DatabaseUnavailable: nothing was removed.
        ObjectStoreError: some of them may still be there.
    """
    count = await objects.remove_unfinished(now - GRACE)
    # The files first: one that is written after that belongs to a job that is stored after that.
    uploads = await objects.list_older(UPLOADS, now - GRACE)
    needed = await database.read(list_open_uploads)
    unneeded = [name for name in uploads if name not in needed]
    await objects.remove(unneeded)
    return count + len(unneeded)
