"""Lines from a terminal, read without a thread, so that Ctrl-C ends the wait and the program at once."""

from __future__ import annotations

import asyncio
import os
from typing import TextIO

_MOST_BYTES = 4096


async def read_line(stream: TextIO) -> str | None:
    """Return the next typed line without its end; None at the end of the input.

    The terminal collects a line before it can be read.

    Args:
        stream: a terminal or a pipe.
    """
    loop = asyncio.get_running_loop()
    descriptor = stream.fileno()
    collected = b""
    while not collected.endswith(b"\n"):
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _mark_ready, ready)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
        # One byte at a time from a pipe: what follows the line belongs to the next question.
        piece = os.read(descriptor, _MOST_BYTES if stream.isatty() else 1)
        if not piece:
            return collected.decode(errors="replace") or None
        collected += piece
    return collected.decode(errors="replace").rstrip("\r\n")


def drop_typed(stream: TextIO) -> None:
    """Forget what was typed before a question stood: a key that was pressed early is no answer."""
    if stream.isatty():
        import termios

        termios.tcflush(stream.fileno(), termios.TCIFLUSH)


def _mark_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
