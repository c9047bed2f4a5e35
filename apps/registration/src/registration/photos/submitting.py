"""An upload becomes a job; an upload that is sent again becomes the same one.

This module must never read a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from registration.store import Transaction
from registration.store.photo_jobs import (
    LIFETIME,
    NewPhoto,
    PhotoJob,
    Submitted,
    find_latest_photo,
    find_photo_job,
    submit_photo,
)

RECEIVED: Final = (
    "📸 Photo received. I am checking it, which may take a moment: please keep the chat open."
)
STILL_CHECKING: Final = "I am still checking your photo. Please keep the chat open for a moment."


class NotAwaited(Exception):
    """No photo is awaited now."""


class OtherPhoto(Exception):
    """The id of the message belongs to another photo."""


class PhotoOwner(Struct, frozen=True):
    """Whose photo is awaited.

    Args:
        registration: the id of the registration.
    """

    registration: str | None


def submit_upload(
    tx: Transaction,
    new: NewPhoto,
    find_owner: Callable[[Transaction], PhotoOwner | None],
    now: float,
) -> Submitted:
    """Store the job of an upload, or find the one that it was sent for before.

    Args:
        tx: the transaction.
        new: the upload; its registration is not looked at.
        find_owner: returns whose photo is awaited; None if none is.
        now: seconds since 1970.

    Raises:
        NotAwaited: no photo is awaited.
        OtherPhoto: the id of the job belongs to other bytes.
    """
    tx.lock_row("sessions", "id", new.session_id)
    known = find_photo_job(tx, new.id)
    if known is not None:
        if known.upload_hash != new.upload_hash:
            raise OtherPhoto
        return Submitted(known, (new.upload_file,))
    owner = find_owner(tx)
    if owner is None:
        latest = find_latest_photo(tx, new.session_id)
        # The answer to the first upload was lost, and meanwhile the photo was accepted.
        if latest is None or latest.state != "done" or latest.upload_hash != new.upload_hash:
            raise NotAwaited
        return Submitted(latest, (new.upload_file,))
    owned = NewPhoto(
        id=new.id,
        session_id=new.session_id,
        registration_id=owner.registration,
        upload_hash=new.upload_hash,
        upload_file=new.upload_file,
        message=new.message,
    )
    return submit_photo(tx, owned, now)


def find_current_photo(tx: Transaction, session: str, now: float) -> PhotoJob | None:
    """Return the newest photo job of a session, for as long as it can be asked for; or None."""
    latest = find_latest_photo(tx, session)
    return latest if latest is not None and is_current(latest, now) else None


def is_current(photo: PhotoJob, now: float) -> bool:
    """Return whether the state of a job can still be asked for."""
    return not photo.is_complete or now - photo.updated_at < LIFETIME
