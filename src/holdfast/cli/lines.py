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


class Lines:
    """Reads lines from a file descriptor.

    Args:
        source: the descriptor; nobody else may read from it, not even `sys.stdin`.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._held = b""
        self._ended = False
        self._coming: asyncio.Future[bytes] | None = None
        """What a thread waits for. Whoever is cancelled leaves it to the next one who reads."""

    async def next(self) -> str | None:
        """The next line without its end; None when there are no more. Bytes that are no UTF-8 are marked."""
        while b"\n" not in self._held and not self._ended:
            self._coming = self._coming or self._piece()
            piece = await asyncio.shield(self._coming)
            self._coming = None
            self._held += piece
            self._ended = not piece
        if not self._held:
            return None
        line, _, self._held = self._held.partition(b"\n")
        return line.removesuffix(b"\r").decode(errors="replace")

    def _piece(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            # A descriptor that cannot be read has no more lines.
            data = b""
            with suppress(OSError):
                data = os.read(self._source, _PIECE)
            with suppress(RuntimeError):  # the loop is over: nobody waits any more
                loop.call_soon_threadsafe(_give, came, data)

        # Not the loop's own threads: those are joined when the loop ends.
        threading.Thread(target=read, name="holdfast-lines", daemon=True).start()
        return came


def _give(came: asyncio.Future[bytes], data: bytes) -> None:
    if not came.done():
        came.set_result(data)
