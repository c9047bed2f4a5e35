"""Between a conversation and the job of its photo: who looks at the photo, and the change by its verdict.

The job is done outside of a turn, so its verdict moves the conversation without one. This module must
never look at a picture itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Agent, Media, OutputError, Prompt
from holdfast.errors import HoldfastError
from registration.club import journey
from registration.club.progress import Progress
from registration.flow.agents import PhotoVerdict
from registration.flow.checked_words import is_harmless
from registration.flow.conversations import Conversation, Move, change_in, read_conversation
from registration.store import Transaction
from registration.store.photo_jobs import PhotoJob, find_latest_photo

PHOTO_STEP: Final = 34
_LOOK: Final = "This is the picture."


async def judge_photo(agent: Agent[Any], session: str, picture: bytes) -> PhotoVerdict:
    """Let the model look at a picture; a reason that leads somewhere else is left out.

    Args:
        agent: the agent of `make_photo_check`.
        session: whose picture it is, for the metrics.
        picture: a JPEG.

    Raises:
        HoldfastError: it gave no verdict.
    """
    prompt: Prompt = [_LOOK, Media("image/jpeg", picture)]
    result = await agent.run(prompt, metadata={"session": session})
    if not isinstance(result.output, PhotoVerdict):
        raise OutputError("The model gave no verdict.")
    verdict = result.output
    return verdict if is_harmless(verdict.reason) else PhotoVerdict(acceptable=verdict.acceptable)


def describe_failure(error: HoldfastError) -> str:
    """Return why there is no verdict, without a text of the model or its provider."""
    return f"the model gave no verdict ({type(error).__name__})"


def awaits_photo(progress: Progress | None) -> bool:
    """Return whether a photo is awaited; also while the parent corrects something else."""
    return progress is not None and PHOTO_STEP in {progress.step, progress.back_to}


def find_open_photo(tx: Transaction, session: str) -> PhotoJob | None:
    """Return the photo job of a session that is under way, or None."""
    conversation = read_conversation(tx, session)
    if not awaits_photo(conversation.progress):
        return None
    latest = find_latest_photo(tx, session)
    return None if latest is None or latest.is_complete else latest


def take_verdict(
    tx: Transaction, photo: PhotoJob, outcome: Mapping[str, object], now: float
) -> str | None:
    """Move a conversation by the verdict on its photo, and return the text for the parent.

    Args:
        tx: the transaction.
        photo: the job of the photo.
        outcome: the outcome of `check_photo`.
        now: seconds since 1970.

    Returns:
        None if the session was deleted, or no photo is awaited.
    """
    session = photo.session_id or ""
    tx.lock_row("sessions", "id", session)
    before = read_conversation(tx, session)
    if not awaits_photo(before.progress):
        return None

    def change(_tx: Transaction, current: Conversation) -> Conversation:
        assert current.progress is not None  # noqa: S101  # REASON: a photo is awaited
        moved = journey.finish_effect(current.progress, "check_photo", outcome)
        return Conversation(*moved, fixed=True)

    # The verdict belongs to no turn: a turn that is under way goes on with its own message.
    move = Move(session=session, key=f"photo/{photo.id}/verdict", turn=before.turn, now=now)
    after = change_in(tx, move, change)
    return after.said.text if after.said is not None else None
