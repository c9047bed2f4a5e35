"""What was written in a conversation, as a page shows it again: messages, answers, and the verdict on a photo.

This module must never show the calls of tools, nor what a tool returned.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.server import Service
from registration.flow.parts import Parts
from registration.flow.transcript import list_lines
from registration.photos.submitting import find_current_photo
from registration.store import Transaction
from registration.store.messages import count_messages


async def read_transcript(parts: Parts, service: Service, session: str) -> list[dict[str, str]]:
    """Return what was written in a session, in order; nothing before the first message.

    Args:
        parts: the database.
        service: has the conversations.
        session: the id of the session.

    Raises:
        HoldfastError: the journal cannot be read.
        DatabaseUnavailable: the database cannot be read.
    """
    try:
        history = await service.sessions.read(session)
    except ConfigurationError:
        return []
    lines: list[dict[str, str]] = msgspec.to_builtins(list_lines(history.messages))
    now = parts.now()

    def find(tx: Transaction) -> tuple[str, int] | None:
        photo = find_current_photo(tx, session, now)
        if photo is None or photo.state != "done":
            return None
        return photo.message, count_messages(tx, session, photo.created_at)

    verdict = await parts.database.read(find)
    return lines if verdict is None else insert_verdict(lines, *verdict)


def insert_verdict(lines: list[dict[str, str]], verdict: str, after: int) -> list[dict[str, str]]:
    """Return the lines with the verdict on the photo, which came outside of a turn.

    Args:
        lines: the messages and answers.
        verdict: what the parent reads about the photo.
        after: how many messages the parent had written when they sent it.

    >>> insert_verdict([{"by": "parent", "text": "7"}], "Thank you.", 1)[-1]
    {'by': 'club', 'text': 'Thank you.'}
    """
    written = [place for place, line in enumerate(lines) if line["by"] == "parent"]
    place = written[after] if after < len(written) else len(lines)
    return [*lines[:place], {"by": "club", "text": verdict}, *lines[place:]]
