"""The status line of a call under way: what a person reads while the answer is coming.

The words are those of seed 004. A callback that fails must never harm the answer, and no status
may cost more the longer the answer is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from holdfast.core.redaction import redact
from holdfast.sdk.caught import Caught, words_of

StatusCallback: TypeAlias = Callable[[str], object]

SENDING = "⏳ Sending message to AI..."
_SHOWN = 50

logger = logging.getLogger(__name__)


class StatusLine:
    r"""Tells a callback what happens; says nothing twice in a row.

    Args:
        callback: gets each status; None for nobody.

    >>> said = []
    >>> line = StatusLine(said.append)
    >>> line.text("Hello,\n"); line.text("world"); line.tool("search")
    >>> said
    ['💭 Hello, ', '💭 Hello, world', '🔧 Using search...']
    """

    __slots__ = ("_beginning", "_full", "_last", "callback")

    def __init__(self, callback: StatusCallback | None) -> None:
        self.callback = callback
        self._beginning = ""
        self._full = False
        self._last = ""

    def text(self, piece: str) -> None:
        """More text has come: show how the whole begins."""
        if self.callback is None:
            return
        if not self._full:
            self._beginning += piece[: _SHOWN + 1 - len(self._beginning)]
            self._full = len(self._beginning) > _SHOWN
        preview = self._beginning[:_SHOWN].replace("\n", " ")
        self.say(f"💭 {preview}..." if self._full else f"💭 {preview}")

    def tool(self, name: str) -> None:
        """The model uses a tool."""
        self.say(f"🔧 Using {name}...")

    def say(self, status: str) -> None:
        """Show this status, unless it stands there already."""
        if self.callback is None or status == self._last:
            return
        self._last = status
        with Caught() as caught:
            self.callback(status)
        if caught.error is not None:
            kind = type(caught.error).__name__
            logger.warning("A status callback raised %s: %s", kind, redact(words_of(caught.error)))
