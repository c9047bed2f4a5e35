"""Photo jobs: one at a time for each session; the outbox does them."""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from registration.store.outbox import NewJob, enqueue
from registration.store.rows import read_row
from registration.store.transaction import Transaction

PhotoState = Literal["queued", "running", "done", "rejected", "failed", "expired", "replaced"]
CHECK_PHOTO: Final = "check_photo"  # the kind of the job in the outbox
LIFETIME: Final = 86_400.0  # seconds for which the state of a job can be asked


class PhotoJob(Struct, frozen=True):
    """A photo job as it is stored."""

    id: str
    upload_hash: str
    upload_file: str
    state: PhotoState
    message: str
    created_at: float
    updated_at: float
    session_id: str | None = None
    registration_id: str | None = None
    stored_file: str | None = None
    progress: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state not in {"queued", "running"}


class NewPhoto(Struct, frozen=True):
    """A photo that was uploaded.

    Args:
        id: of the job: random.
        session_id: its session.
        registration_id: its registration.
        upload_hash: the hash of the uploaded bytes.
        upload_file: the name under which they are kept.
        message: the text for the parent meanwhile.
    """

    id: str
    session_id: str
    registration_id: str | None
    upload_hash: str
    upload_file: str
    message: str


class Submitted(Struct, frozen=True):
    """The outcome of an upload.

    Args:
        job: the job that checks it: a new one, or the one that checks the same bytes already.
        unused_files: files that are needed no longer.
    """

    job: PhotoJob
    unused_files: tuple[str, ...] = ()


def submit_photo(tx: Transaction, new: NewPhoto, now: float) -> Submitted:
    """Store a job for a photo, and the outbox row that does it.

    The same bytes as those of a job under way are that job. Other bytes replace it.
    """
    tx.lock_row("sessions", "id", new.session_id)
    current = find_latest_photo(tx, new.session_id)
    replaced: tuple[str, ...] = ()
    if current is not None and not current.is_complete:
        if current.upload_hash == new.upload_hash:
            unused = () if new.upload_file == current.upload_file else (new.upload_file,)
            return Submitted(current, unused)
        set_photo_state(tx, current.id, "replaced", current.message, now)
        replaced = (current.upload_file,)
    tx.execute(
        "INSERT INTO photo_jobs (id, session_id, registration_id, upload_hash, upload_file, state,"
        " progress, message, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, 'queued', 'stored', ?, ?, ?)",
        *(new.id, new.session_id, new.registration_id, new.upload_hash, new.upload_file),
        *(new.message, now, now),
    )
    payload = {"job": new.id}
    key = f"photo/{new.id}"
    enqueue(tx, NewJob(key, CHECK_PHOTO, payload, new.registration_id, new.session_id), now)
    stored = find_photo_job(tx, new.id)
    assert stored is not None  # noqa: S101 -- it was inserted just now
    return Submitted(stored, replaced)


def find_photo_job(tx: Transaction, job_id: str) -> PhotoJob | None:
    """Return a job, or None."""
    rows = tx.execute("SELECT * FROM photo_jobs WHERE id = ?", job_id)
    return read_row(rows[0], PhotoJob) if rows else None


def find_latest_photo(tx: Transaction, session_id: str) -> PhotoJob | None:
    """Return the newest job of a session, or None."""
    rows = tx.execute(
        "SELECT * FROM photo_jobs WHERE session_id = ? AND state <> 'replaced'"
        " ORDER BY created_at DESC, id LIMIT 1",
        session_id,
    )
    return read_row(rows[0], PhotoJob) if rows else None


def set_photo_progress(tx: Transaction, job_id: str, progress: str, now: float) -> bool:
    """Remember how far a job is; whether it is still wanted."""
    rows = tx.execute(
        "UPDATE photo_jobs SET state = 'running', progress = ?, updated_at = ?"
        " WHERE id = ? AND state IN ('queued', 'running') RETURNING id",
        *(progress, now, job_id),
    )
    return bool(rows)


def plan_photo(tx: Transaction, job_id: str, stored_file: str, now: float) -> bool:
    """Remember under which name the photo is about to be saved; whether it is still wanted.

    Whoever deletes the person meanwhile then knows the name.
    """
    rows = tx.execute(
        "UPDATE photo_jobs SET stored_file = ?, updated_at = ?"
        " WHERE id = ? AND state IN ('queued', 'running') RETURNING id",
        *(stored_file, now, job_id),
    )
    return bool(rows)


def list_open_uploads(tx: Transaction) -> frozenset[str]:
    """Return the names of the uploaded files of jobs that are not complete."""
    rows = tx.execute("SELECT upload_file FROM photo_jobs WHERE state IN ('queued', 'running')")
    return frozenset(row["upload_file"] for row in rows)


def set_photo_state(
    tx: Transaction, job_id: str, state: PhotoState, message: str, now: float
) -> bool:
    """Move a job to another state, with the text for the parent; whether it was still under way."""
    rows = tx.execute(
        "UPDATE photo_jobs SET state = ?, message = ?, updated_at = ?"
        " WHERE id = ? AND state IN ('queued', 'running') RETURNING id",
        *(state, message, now, job_id),
    )
    return bool(rows)


def finish_photo(tx: Transaction, job_id: str, stored_file: str, message: str, now: float) -> bool:
    """Link the finished photo into its registration and end the job; whether it was still wanted."""
    rows = tx.execute(
        "UPDATE photo_jobs SET state = 'done', progress = NULL, stored_file = ?, message = ?,"
        " updated_at = ? WHERE id = ? AND state IN ('queued', 'running') RETURNING registration_id",
        *(stored_file, message, now, job_id),
    )
    if rows and rows[0]["registration_id"] is not None:
        tx.execute(
            "UPDATE registrations SET photo_file = ?, updated_at = ? WHERE id = ?",
            *(stored_file, now, rows[0]["registration_id"]),
        )
    return bool(rows)


def count_photos(tx: Transaction) -> dict[str, int]:
    """Return how many photo jobs there are in each state, also in one without any."""
    rows = tx.execute("SELECT state, COUNT(*) AS number FROM photo_jobs GROUP BY state")
    return {
        **dict.fromkeys(get_args(PhotoState), 0),
        **{row["state"]: row["number"] for row in rows},
    }


def expire_photos(tx: Transaction, message: str, now: float) -> tuple[str, ...]:
    """End the jobs that were begun a day ago and never ended; return the files to remove."""
    rows = tx.execute(
        "UPDATE photo_jobs SET state = 'expired', message = ?, updated_at = ?"
        " WHERE state IN ('queued', 'running') AND created_at <= ? RETURNING upload_file",
        *(message, now, now - LIFETIME),
    )
    return tuple(sorted(row["upload_file"] for row in rows))
