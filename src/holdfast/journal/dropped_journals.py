"""Ends the background work of a journal, when the journal is dropped and when the interpreter exits.

The garbage collector drops a journal in any thread and between any two steps. That thread may hold a lock that
the thread of the journal needs for its end. So a finalizer must never wait without a limit: whoever is not
ended in a moment is waited for at the exit of the interpreter.
"""

from __future__ import annotations

import atexit
import weakref
from contextlib import ExitStack
from typing import Any, Protocol

SECONDS_TO_WAIT = 1.0
"""So long a dropped journal is waited for, so that its file can mostly be opened again at once."""


class Background(Protocol):
    """The work for a journal in a thread of its own."""

    def close(self, seconds: float | None = None) -> bool:
        """Finish the queued work and end; wait so many seconds at most. Return whether it has ended."""
        ...


_open: set[Background] = set()


def end_when_dropped(journal: object, background: Background) -> weakref.finalize[..., Any]:
    """End the background of a journal when the journal is dropped, or when the interpreter exits.

    Args:
        journal: the journal.
        background: its work; it must not refer to the journal.

    Returns:
        The arguments of `close_now`.
    """
    _open.add(background)
    finalizer = weakref.finalize(journal, _drop, background)
    finalizer.atexit = False
    return finalizer


def close_now(finalizer: weakref.finalize[..., Any]) -> None:
    """End the background of a journal, and wait until it has ended. A second call does nothing."""
    found = finalizer.detach()
    if found is not None:
        _, _, (background,), _ = found
        _end(background, None)


def _drop(background: Background) -> None:
    _end(background, SECONDS_TO_WAIT)


def _end(background: Background, seconds: float | None) -> None:
    if background.close(seconds):
        _open.discard(background)


@atexit.register
def _end_all() -> None:
    with ExitStack() as stack:  # each one, also if another one fails
        for background in list(_open):
            stack.callback(_end, background, None)
