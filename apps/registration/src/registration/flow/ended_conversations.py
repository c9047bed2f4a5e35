"""The end of a conversation: its words are kept with the registration, by a job of the outbox.

The job reads the journal, after the turn that came to the end. This module must never keep what a tool
was called with or returned.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast import Sessions
from holdfast.errors import ConfigurationError
from holdfast.outbox import JobOutcome, JobRetry
from registration.club.progress import Progress
from registration.flow.conversations import read_conversation
from registration.flow.parts import Parts
from registration.flow.transcript import Line, list_lines
from registration.outbox.kinds import KEEP_CONVERSATION
from registration.outbox.outcomes import Done, Handler
from registration.store import Transaction
from registration.store.outbox import Job
from registration.store.photo_jobs import find_latest_photo
from registration.store.registrations import update_registration

PHOTO_SENT: Final = "(a photo)"
_WAITS: Final = (5.0, 15.0, 60.0, 300.0, 1_800.0)


def make_conversation_handler(parts: Parts, sessions: Sessions) -> dict[str, Handler]:
    """Return the handler that keeps conversations, by its kind.

    Args:
        parts: the database.
        sessions: the conversations, in the journal.
    """

    async def perform(job: Job) -> JobOutcome:
        session = job.session_id or ""
        try:
            history = await sessions.read(session)
        except ConfigurationError:
            return Done()  # the conversation was deleted
        if history.open:
            return JobRetry("a turn is in progress")
        lines, now = list_lines(history.messages), parts.now()

        def work(tx: Transaction) -> None:
            progress = read_conversation(tx, session).progress
            if progress is None or progress.registration is None or is_of_another(progress):
                return
            photo = find_latest_photo(tx, session)
            is_done = photo is not None and photo.state == "done"
            last = (
                [Line("parent", PHOTO_SENT), Line("club", photo.message)]
                if photo and is_done
                else []
            )
            words = msgspec.to_builtins([*lines, *last])
            update_registration(tx, progress.registration, now, conversation=words)

        await parts.database.transact(work)
        return Done()

    return {KEEP_CONVERSATION: Handler(perform, waits=_WAITS)}


def is_of_another(progress: Progress) -> bool:
    """Return whether the player was registered already, by another conversation."""
    return progress.outcomes.get("save_registration") is False
