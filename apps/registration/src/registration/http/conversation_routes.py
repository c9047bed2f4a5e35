"""The routes of a whole conversation: read it again, and forget it.

The club keeps a registration that got as far as the payment. This module must never touch one, must never leave half
of a conversation without the row by which it is found again, and must never show the calls or results of tools.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.errors import ConfigurationError
from holdfast.server import Service
from registration.flow.parts import Parts
from registration.flow.transcript import list_lines
from registration.http.access import find_own_session
from registration.http.bodies import read_body
from registration.http.chat_routes import SessionBody
from registration.http.running import Running
from registration.http.state import state_of
from registration.photos.submitting import find_current_photo
from registration.store import Transaction
from registration.store.deletion import forget_session, list_files_to_forget
from registration.store.messages import count_messages


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/sessions/{session_id}/messages", show_messages, methods=["GET"]),
        Route("/clear", clear, methods=["POST"]),
    ]


async def show_messages(request: Request) -> Response:
    """Show the messages and answers."""
    running = state_of(request).running
    session = await find_own_session(running.parts, request, request.path_params["session_id"])
    lines = await read_transcript(running.parts, running.service, session.id)
    return JSONResponse({"messages": lines}, headers={"Cache-Control": "no-store"})


async def clear(request: Request) -> Response:
    """Forget a conversation."""
    running = state_of(request).running
    body = await read_body(request, SessionBody)
    session = await find_own_session(running.parts, request, body.session_id)
    await forget_conversation(running, session.id)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def forget_conversation(running: Running, session: str) -> None:
    """Delete a conversation; a turn in progress is cancelled first.

    The journal and the files come first, so that a conversation of which only a part was deleted is
    still found by its row; and they come again, for messages that were accepted between the two.

    Args:
        running: the database, the conversations and the files.
        session: the id of the session.

    Raises:
        DatabaseUnavailable: the rows are still there.
        HoldfastError: the words are still there.
        ObjectStoreError: the files are still there.
    """
    database, objects, now = running.parts.database, running.photos.objects, running.parts.now()
    await _delete_words(running.service, session)
    await objects.remove(await database.read(lambda tx: list_files_to_forget(tx, session)))
    deleted = await database.transact(lambda tx: forget_session(tx, session, now))
    await _delete_words(running.service, session)
    await objects.remove(deleted.files)


async def _delete_words(service: Service, session: str) -> None:
    try:
        await service.cancel(session, by="parent")
        await service.sessions.delete(session)
    except ConfigurationError:
        return  # nothing was written yet


async def read_transcript(parts: Parts, service: Service, session: str) -> list[dict[str, str]]:
    """Return the messages and answers of a session, in order; nothing before the first message.

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
        verdict: the text for the parent about the photo.
        after: how many messages the parent had written when they sent it.

    >>> insert_verdict([{"by": "parent", "text": "7"}], "Thank you.", 1)[-1]
    {'by': 'club', 'text': 'Thank you.'}
    """
    written = [place for place, line in enumerate(lines) if line["by"] == "parent"]
    place = written[after] if after < len(written) else len(lines)
    return [*lines[:place], {"by": "club", "text": verdict}, *lines[place:]]
