"""The job of a photo: convert it, let the model look at it, save it, and go on with the registration.

Each step may be repeated by another process. The job in the database has the state of the work, and files
are removed only when it shows that they are not needed. Uploads without an open job are removed as well, but no
finished photo: after a restore, the database may not know the newest ones. This module must never report that a
photo is fine which nobody looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.outbox import JobDone, JobFailed, JobOutcome, JobRetry
from registration.outbox.outcomes import Done, Handler
from registration.photos.converter import ConversionFailed, Converter, RefusedPicture
from registration.photos.naming import PHOTOS, UPLOADS, name_photo
from registration.photos.object_store import ObjectMissing, ObjectStore, ObjectStoreError
from registration.store import Database, Transaction
from registration.store.outbox import Job
from registration.store.photo_jobs import (
    PhotoJob,
    PhotoState,
    find_photo_job,
    finish_photo,
    list_open_uploads,
    plan_photo,
    set_photo_progress,
    set_photo_state,
)
from registration.store.registrations import Registration, load_registration
from registration.store.tasks import NewTask, open_task

TIME_LIMIT: Final = 150.0  # seconds: for the picture 60, for the model 80
# Seconds before each further attempt: about a day, and then the job expires.
WAITS: Final = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, *[1_800.0] * 46)

POSTPONED: Final = (
    "I have your photo, but I cannot check it right now. I will try again by myself. You can close"
    " the chat, or send another photo with the + button."
)
LOST: Final = "Sorry, I could not check that photo. Please send it again with the + button."
GONE: Final = "This photo is not needed any more."
NO_REASON: Final = "it does not show one young person, as on a passport"


class Verdict(Struct, frozen=True):
    """The verdict of the model on a photo.

    Args:
        acceptable: whether it can be used.
        reason: why not, for the parent.
    """

    acceptable: bool
    reason: str = ""


class NoVerdict(Exception):
    """The model did not say whether a photo can be used; another time it may.

    Args:
        reason: why, in a few words without personal data.
        retry_after: seconds after which it may.
    """

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class PhotoDesk(Struct, frozen=True, kw_only=True):
    """The parts that the job works with.

    Args:
        database: where the jobs are.
        objects: where the files are.
        converter: opens pictures.
        judge: lets the model look at a picture; raises NoVerdict.
        take_verdict: moves the conversation of a job by an outcome of `check_photo`, in the
            transaction, and returns the text for the parent; None if no photo is awaited.
        now: returns seconds since 1970.
    """

    database: Database
    objects: ObjectStore
    converter: Converter
    judge: Callable[[str, bytes], Awaitable[Verdict]]
    take_verdict: Callable[[Transaction, PhotoJob, Mapping[str, object], float], str | None]
    now: Callable[[], float]


def make_photo_handler(desk: PhotoDesk) -> Handler:
    """Return the handler of the jobs of photos."""
    return Handler(PhotoCheck(desk).perform, _give_up, waits=WAITS, time_limit=TIME_LIMIT)


class PhotoCheck:
    """Does the jobs of photos.

    Args:
        desk: the parts that it works with.
    """

    def __init__(self, desk: PhotoDesk) -> None:
        self._desk = desk

    async def perform(self, job: Job) -> JobOutcome:
        """Do a job, or the rest of it."""
        name = str(job.payload["job"])
        photo = await self._desk.database.read(lambda tx: find_photo_job(tx, name))
        if photo is None:
            return Done()  # the person was deleted, with the files
        try:
            if not photo.is_complete:
                await self._check(photo)
            await self._desk.objects.remove([photo.upload_file])
        except ObjectMissing:
            await self._end(photo, "failed", LOST)
            return JobFailed("the uploaded file is not there")
        except (NoVerdict, ConversionFailed, ObjectStoreError) as problem:
            return await self._postpone(photo, problem)
        return Done()

    async def _check(self, photo: PhotoJob) -> None:
        """Do the steps of a job."""
        if not await self._report(photo, "converting"):
            return
        with await self._desk.objects.open(photo.upload_file) as file:
            converted = await self._desk.converter.convert(file)
        if isinstance(converted, RefusedPicture):
            await self._reject(photo, converted.reason)
        elif await self._report(photo, "checking"):
            verdict = await self._desk.judge(photo.session_id or "", converted.picture)
            if not verdict.acceptable:
                await self._reject(photo, verdict.reason.strip() or NO_REASON)
            elif await self._report(photo, "saving"):
                await self._save(photo, converted.picture)

    async def _report(self, photo: PhotoJob, progress: str) -> bool:
        """Save how far the job is; whether it is still wanted."""
        now = self._desk.now()
        return await self._desk.database.transact(
            lambda tx: set_photo_progress(tx, photo.id, progress, now)
        )

    async def _save(self, photo: PhotoJob, picture: bytes) -> None:
        """Save the picture and link it. A photo that nobody wants any more leaves no file."""
        database, owner = self._desk.database, photo.registration_id or ""
        registration = await database.read(lambda tx: load_registration(tx, owner))
        if registration is None:
            await self._end(photo, "failed", LOST)
            return
        stored = await self._store(photo, registration, picture)
        is_linked = stored is not None and await database.transact(
            lambda tx: self._link(tx, photo, stored)
        )
        if stored is not None and not is_linked:
            await self._desk.objects.remove([stored])

    async def _store(
        self, photo: PhotoJob, registration: Registration, picture: bytes
    ) -> str | None:
        """Write the picture into the object store; return its name, or None if it is not wanted.

        The name is planned first, so that a deletion meanwhile knows it.
        """
        desk, metadata = self._desk, describe_photo(photo, registration, self._desk.now())
        folder, stem = f"{PHOTOS}/{photo.id}", name_photo(registration)
        async with desk.objects.create() as new:
            await new.write(picture)
            name = await new.name(folder, stem, ".jpg")
            if photo.stored_file not in (None, name):
                await desk.objects.remove([photo.stored_file])
            if not await desk.database.transact(
                lambda tx: plan_photo(tx, photo.id, name, desk.now())
            ):
                return None
            await new.keep(name, metadata)
            return name

    def _link(self, tx: Transaction, photo: PhotoJob, stored: str) -> bool:
        """Link the photo into the record and move the conversation on; whether it was wanted."""
        now = self._desk.now()
        current = find_photo_job(tx, photo.id)
        if current is None or current.is_complete:
            # A job that is done has this photo already.
            return current is not None and current.state == "done"
        said = self._desk.take_verdict(tx, photo, {"accepted": True, "photo": True}, now)
        if said is None:
            set_photo_state(tx, photo.id, "failed", GONE, now)
            return False
        return finish_photo(tx, photo.id, stored, said, now)

    async def _reject(self, photo: PhotoJob, reason: str) -> None:
        """Show the parent why the photo cannot be used; the step stays."""
        outcome = {"accepted": False, "reason": reason}

        def work(tx: Transaction) -> None:
            now = self._desk.now()
            current = find_photo_job(tx, photo.id)
            if current is None or current.is_complete:
                return
            said = self._desk.take_verdict(tx, photo, outcome, now)
            state: PhotoState = "failed" if said is None else "rejected"
            set_photo_state(tx, photo.id, state, said or GONE, now)

        await self._desk.database.transact(work)

    async def _postpone(
        self, photo: PhotoJob, problem: NoVerdict | ConversionFailed | ObjectStoreError
    ) -> JobRetry:
        """Queue the job again, and show that to the parent."""
        await self._end(photo, "queued", POSTPONED)
        after = problem.retry_after if isinstance(problem, NoVerdict) else 0.0
        return JobRetry(str(problem), after)

    async def _end(self, photo: PhotoJob, state: PhotoState, message: str) -> None:
        now = self._desk.now()
        await self._desk.database.transact(
            lambda tx: set_photo_state(tx, photo.id, state, message, now)
        )


def describe_photo(photo: PhotoJob, registration: Registration, now: float) -> dict[str, str]:
    """Return the metadata of a finished photo."""
    return {
        "registration": registration.id,
        "player": f"{registration.player_first} {registration.player_last}",
        "team": registration.team,
        "age_group": registration.age_group,
        "stored_at": f"{now:.0f}",
        "original_type": f"image/{photo.upload_file.rpartition('.')[2]}",
    }


def _give_up(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
    """Notify the parent and the office that a photo could not be checked."""
    if isinstance(outcome, JobDone):
        return
    set_photo_state(tx, str(job.payload["job"]), "failed", LOST, now)
    task = NewTask(
        key=f"{job.key}/failed",
        kind="photo",
        reason=f"A photo could not be checked: {outcome.reason}. The parent was asked for it again.",
        registration_id=job.registration_id,
        session_id=job.session_id,
    )
    open_task(tx, task, now)


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
