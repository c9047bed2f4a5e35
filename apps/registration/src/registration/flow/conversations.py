"""The saved state of a conversation, and the one way to change it: once per key, in one transaction.

At the end of a conversation, a job of the outbox keeps its words with the registration: it reads the journal, after
the turn that came to the end. This module must never decide on a change (`club` does), and must never keep the
arguments or the result of a tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from holdfast import Sessions
from holdfast.errors import ConfigurationError
from holdfast.outbox import JobOutcome, JobRetry
from registration.club.progress import Progress, Said
from registration.club.steps import LAST_STEP
from registration.flow.parts import Parts
from registration.flow.transcript import Line, list_lines
from registration.outbox.kinds import KEEP_CONVERSATION
from registration.outbox.outcomes import Done, Handler
from registration.store import sessions
from registration.store.database import Database
from registration.store.effects import EffectOf, find_effect, save_effect
from registration.store.outbox import Job, NewJob, enqueue
from registration.store.photo_jobs import find_latest_photo
from registration.store.registrations import update_registration
from registration.store.transaction import Transaction

TURN_SECONDS: Final = 2.0
"""After which the turn that came to the end has usually ended."""


class Conversation(Struct, frozen=True):
    """Where a conversation stands.

    Args:
        progress: the steps; None before a code was accepted.
        said: the last reply.
        turn: the number of the turn in which that was decided; 0 for none.
        fixed: whether it is said as it is, without a model.
        message: the client's name for the message that was taken then; "" for none. Sent again after
            a turn that failed, it is not taken for an answer to the next question.
    """

    progress: Progress | None = None
    said: Said | None = None
    turn: int = 0
    fixed: bool = False
    message: str = ""


class Move(Struct, frozen=True, kw_only=True):
    """One change of a conversation.

    Args:
        session: the id of the session.
        key: names the change; the second change with a key is not made.
        turn: the number of the turn.
        now: seconds since the epoch.
        message: the client's name for the message that is taken; "" for a change by others.
    """

    session: str
    key: str
    turn: int
    now: float
    message: str = ""


Change = Callable[[Transaction, Conversation], Conversation]


def read_conversation(tx: Transaction, session: str) -> Conversation:
    """Return where a conversation stands. One that nobody began stands at its beginning."""
    saved = sessions.load_session(tx, session)
    return Conversation() if saved is None else to_conversation(saved)


def to_conversation(saved: sessions.Session) -> Conversation:
    """Return where the conversation of a session stands."""
    return msgspec.convert(saved.progress, Conversation) if saved.progress else Conversation()


async def load_conversation(database: Database, session: str) -> Conversation:
    """Return where a conversation stands. Raises DatabaseUnavailable."""
    return await database.read(lambda tx: read_conversation(tx, session))


async def change_conversation(database: Database, move: Move, change: Change) -> Conversation:
    """Change a conversation, unless that was done; return how it stands then.

    Args:
        database: the database.
        move: the change, and its time.
        change: returns the conversation as it is to be; it may write other rows.

    Raises:
        DatabaseUnavailable: nothing was saved.
        LookupError: there is no such session; it was deleted.
    """
    return await database.transact(lambda tx: change_in(tx, move, change))


def change_in(tx: Transaction, move: Move, change: Change) -> Conversation:
    """As `change_conversation`, within a transaction."""
    tx.lock_row("sessions", "id", move.session)
    saved = sessions.load_session(tx, move.session)
    if saved is None:
        raise LookupError(f"there is no session {move.session}")
    before = to_conversation(saved)
    if find_effect(tx, move.key) is not None:
        return before
    taken = move.message or before.message
    after = msgspec.structs.replace(change(tx, before), turn=move.turn, message=taken)
    save_effect(tx, move.key, {}, EffectOf(session_id=move.session), move.now)
    written = msgspec.json.encode(after).decode()
    sessions.save_progress(tx, move.session, written, saved.version, move.now)
    if after.progress is not None and after.progress.step == LAST_STEP:
        _end(tx, move, after.progress)
    return after


def _end(tx: Transaction, move: Move, progress: Progress) -> None:
    """Remember that a registration is complete, and keep its words with the record."""
    sessions.finish_session(tx, move.session, move.now)
    if progress.registration is not None:
        key = f"session/{move.session}/conversation"
        job = NewJob(key, KEEP_CONVERSATION, {}, progress.registration, move.session)
        enqueue(tx, job, move.now, due_at=move.now + TURN_SECONDS)


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
