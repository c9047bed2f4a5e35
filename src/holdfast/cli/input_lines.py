"""Lines of standard input for a program with an event loop.

A thread waits for the bytes, so that the loop is free for Ctrl-C; the thread is never waited for,
since nobody can interrupt it. This module must never read ahead more than one piece.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from holdfast.core.errors import ConfigurationError

_PIECE = 64 * 1024


def standard_input() -> TextIO:
    """Standard input. Raises ConfigurationError when the program was started without one."""
    if sys.stdin is None:
        raise ConfigurationError(
            "standard input", "is closed", fix="Start it with one, or < /dev/null"
        )
    return sys.stdin


class LineReader:
    """Reads lines from a file descriptor.

    Args:
        source: the descriptor; nobody else may read from it, not even `sys.stdin`.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._buffer = b""
        self._at_end = False
        self._pending_read: asyncio.Future[bytes] | None = None
        """What a thread waits for. Whoever is cancelled leaves it to the next one who reads."""

    async def read_line(self) -> str | None:
        """The next line without its end; None when there are no more. Bytes that are no UTF-8 are marked."""
        while b"\n" not in self._buffer and not self._at_end:
            self._pending_read = self._pending_read or self._start_read()
            piece = await asyncio.shield(self._pending_read)
            self._pending_read = None
            self._buffer += piece
            self._at_end = not piece
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.removesuffix(b"\r").decode(errors="replace")

    def _start_read(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            # A descriptor that cannot be read has no more lines.
            data = b""
            with suppress(OSError):
                data = os.read(self._source, _PIECE)
            with suppress(RuntimeError):  # the loop is over: nobody waits any more
                loop.call_soon_threadsafe(_set_data, came, data)

        # Not the loop's own threads: those are joined when the loop ends.
        threading.Thread(target=read, name="holdfast-lines", daemon=True).start()
        return came


def _set_data(future: asyncio.Future[bytes], data: bytes) -> None:
    if not future.done():
        future.set_result(data)
