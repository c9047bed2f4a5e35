"""The status lines of a running call, for a person who waits for the answer.

An exception of the callback is logged and does not affect the answer. The work for one status never
grows with the length of the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception

StatusCallback: TypeAlias = Callable[[str], object]

SENDING = "⏳ Sending message to AI..."
_SHOWN = 50

logger = logging.getLogger(__name__)


class StatusLine:
    r"""Calls a callback with each status: one for each piece of text and each tool.

    Args:
        callback: called with each status, or None.

    >>> said = []
    >>> line = StatusLine(said.append)
    >>> line.show_text("Hello,\n"); line.show_text("world"); line.show_tool("search")
    >>> said
    ['💭 Hello, ', '💭 Hello, world', '🔧 Using search...']
    """

    __slots__ = ("_beginning", "_is_full", "callback")

    def __init__(self, callback: StatusCallback | None) -> None:
        self.callback = callback
        self._beginning = ""
        self._is_full = False

    def show_text(self, piece: str) -> None:
        """Add text, and show the beginning of the whole text."""
        if self.callback is None:
            return
        if not self._is_full:
            self._beginning += piece[: _SHOWN + 1 - len(self._beginning)]
            self._is_full = len(self._beginning) > _SHOWN
        preview = self._beginning[:_SHOWN].replace("\n", " ")
        self.show_status(f"💭 {preview}..." if self._is_full else f"💭 {preview}")

    def show_tool(self, name: str) -> None:
        """Show that the model uses a tool."""
        self.show_status(f"🔧 Using {name}...")

    def show_status(self, status: str) -> None:
        """Show this status."""
        if self.callback is None:
            return
        with ErrorCatcher() as caught:
            self.callback(status)
        if caught.error is not None:
            kind = type(caught.error).__name__
            logger.warning("A status callback raised %s: %s", kind, redact_exception(caught.error))
