"""Forgetting a conversation: its words in the journal, and its rows in the database.

The club keeps a registration that got as far as the payment. This module must never leave half of a
conversation without the row by which it is found again.
"""

from __future__ import annotations

from holdfast.errors import ConfigurationError
from holdfast.server import Service
from registration.http.running import Running
from registration.store.deletion import forget_session, list_files_to_forget


async def forget_conversation(running: Running, session: str) -> None:
    """Delete a conversation; a turn in progress is cancelled first.

    The journal and the files come first, so that a conversation of which only a part was deleted is
    still found by its row; and they come again, for what was accepted between the two.

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
