"""Adds the session's id to log records.

The id is a context variable. A process-wide value, such as an environment variable, would be wrong
as soon as two sessions run at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

UNKNOWN = "unknown"

_session: ContextVar[str] = ContextVar("holdfast_sdk_session", default=UNKNOWN)


def current_session() -> str:
    """Return the session's id of this task or thread; "unknown" outside of a session.

    >>> with session_scope("alice"):
    ...     current_session()
    'alice'
    >>> current_session()
    'unknown'
    """
    return _session.get()


@contextmanager
def session_scope(session_id: str) -> Iterator[None]:
    """Set the session's id for a block; "unknown" changes nothing.

    Args:
        session_id: the session's id.
    """
    if session_id == UNKNOWN:
        yield
        return
    token = _session.set(session_id)
    try:
        yield
    finally:
        _session.reset(token)


class SessionFilter(logging.Filter):
    """A logging filter that sets `session_id` on every record.

    >>> record = logging.makeLogRecord({})
    >>> with session_scope("alice"):
    ...     SessionFilter().filter(record), record.session_id
    (True, 'alice')
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `session_id`, and accept every record."""
        record.session_id = current_session()
        return True
