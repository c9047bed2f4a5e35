"""The messages of a registration's conversation, for the office.

This module must never show the calls of tools, nor what a tool returned.
"""

from __future__ import annotations

import msgspec

from holdfast import Sessions
from holdfast.errors import ConfigurationError
from registration.flow.transcript import Line, list_lines
from registration.store.registrations import Registration


async def find_lines(sessions: Sessions, registration: Registration) -> list[Line]:
    """Return the conversation of a registration: as it was stored with it, or as it is so far.

    Args:
        sessions: the conversations, in the journal.
        registration: the registration.

    Raises:
        HoldfastError: the journal cannot be read.
    """
    if registration.conversation:
        return msgspec.convert(registration.conversation, list[Line])
    if registration.session_id is None:
        return []
    try:
        history = await sessions.read(registration.session_id)
    except ConfigurationError:
        return []  # it was deleted, or nothing was written
    return list_lines(history.messages)
