"""Which session a log line belongs to: carried by the context, so that sessions never mix.

A process-wide place for "the current session", such as an environment variable, is another
session's as soon as two run at once. This module must never keep a session beyond its block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

UNKNOWN = "unknown"

_session: ContextVar[str] = ContextVar("holdfast_sdk_session", default=UNKNOWN)


def current_session() -> str:
    """The session of this task or thread; "unknown" outside of every session.

    >>> with session_scope("alice"):
    ...     current_session()
    'alice'
    >>> current_session()
    'unknown'
    """
    return _session.get()


@contextmanager
def session_scope(session_id: str) -> Iterator[None]:
    """Everything in the block belongs to this session; "unknown" leaves it as it is.

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
    """Puts `session_id` on every record of a handler, for its formatter.

    >>> record = logging.makeLogRecord({})
    >>> with session_scope("alice"):
    ...     SessionFilter().filter(record), record.session_id
    (True, 'alice')
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Name the session; every record passes."""
        record.session_id = current_session()
        return True
