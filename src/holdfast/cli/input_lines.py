"""Lines of standard input for a program with an event loop.

A thread reads the bytes, so that the event loop can handle Ctrl-C. The program does not wait for
that thread, because a blocking read cannot be interrupted. At most one block is read ahead.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from holdfast.core.errors import ConfigurationError

_BLOCK_SIZE = 64 * 1024


def standard_input() -> TextIO:
    """Return standard input. Raises ConfigurationError if the program was started without it."""
    if sys.stdin is None:
        raise ConfigurationError(
            "standard input", "is closed", fix="Open it, for example with < /dev/null"
        )
    return sys.stdin


class LineReader:
    """Reads lines from a file descriptor.

    Args:
        source: the descriptor; nothing else may read from it, including `sys.stdin`.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._buffer = b""
        self._at_end = False
        self._pending_read: asyncio.Future[bytes] | None = None
        """The read of a thread. A cancelled `read_line` leaves it to the next call."""

    async def read_line(self) -> str | None:
        """Return the next line without its end, or None at the end; replace invalid UTF-8."""
        while b"\n" not in self._buffer and not self._at_end:
            self._pending_read = self._pending_read or self._start_read()
            data = await asyncio.shield(self._pending_read)
            self._pending_read = None
            self._buffer += data
            self._at_end = not data
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.removesuffix(b"\r").decode(errors="replace")

    def _start_read(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            # A descriptor that cannot be read counts as one at its end.
            data = b""
            with suppress(OSError):
                data = os.read(self._source, _BLOCK_SIZE)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_set_data, future, data)

        # Not the default executor: `asyncio.run` joins its threads at the end.
        threading.Thread(target=read, name="holdfast-lines", daemon=True).start()
        return future


def _set_data(future: asyncio.Future[bytes], data: bytes) -> None:
    if not future.done():
        future.set_result(data)
