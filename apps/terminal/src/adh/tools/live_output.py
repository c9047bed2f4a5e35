"""Live output of a command: at most ten updates a second, each of bounded length.

It must never slow the command down: what cannot be shown in time is left out, and counted.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import Literal

from adh.storage.tool_notices import ToolOutput
from adh.tools.bounded_output import clean_output

INTERVAL = 0.1
"""Seconds between two updates."""
_LONGEST_UPDATE = 8_000

Stream = Literal["stdout", "stderr"]


class LiveOutput:
    """Streams what a command writes as notices.

    Args:
        emit: passes a notice on.
    """

    def __init__(self, emit: Callable[[ToolOutput], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[Stream, str]] = []
        self._length = 0
        self._dropped = 0
        make_decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {
            "stdout": make_decoder("replace"),
            "stderr": make_decoder("replace"),
        }

    def add(self, stream: Stream, data: bytes) -> None:
        """Add what was written next; it is shown with the next update."""
        if self._length >= _LONGEST_UPDATE:
            self._dropped += len(data)
            self._decoders[stream].reset()
        else:
            text = self._decoders[stream].decode(data)
            room = _LONGEST_UPDATE - self._length
            self._dropped += max(len(text) - room, 0)
            self._waiting.append((stream, text[:room]))
            self._length += len(text[:room])
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._show)

    def close(self) -> None:
        """Show what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._show()

    def _show(self) -> None:
        self._timer = None
        waiting, dropped = self._waiting, self._dropped
        self._waiting, self._length, self._dropped = [], 0, 0
        for stream, text in _join_neighbours(waiting):
            if text:
                self._emit(ToolOutput(stream, clean_output(text)))
        if dropped:
            self._emit(ToolOutput("stdout", f"\n[{dropped:,} bytes are not shown]\n"))


def _join_neighbours(pieces: list[tuple[Stream, str]]) -> list[tuple[Stream, str]]:
    joined: list[tuple[Stream, str]] = []
    for stream, text in pieces:
        if joined and joined[-1][0] == stream:
            joined[-1] = (stream, joined[-1][1] + text)
        else:
            joined.append((stream, text))
    return joined
