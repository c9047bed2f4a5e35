"""Sends a large request body without copying it.

The client library joins the headers and the body into one block, which copies the body, and reads a
body of more than a megabyte as a file, in small pieces.
"""

from __future__ import annotations

from typing import Final

from aiohttp import Payload
from aiohttp.abc import AbstractStreamWriter

LARGE: Final = 2**16
"""The size in bytes from which a copy costs more than a second write to the socket."""

_PIECE = 2**20


class LargeBody(Payload):
    """A body that is written after the headers, one megabyte at a time.

    Args:
        value: the body.
    """

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the body, as fast as the connection accepts it."""
        writer.send_headers()
        if len(self._value) <= _PIECE:
            await writer.write(self._value)
            return
        view = memoryview(self._value)
        for start in range(0, len(view), _PIECE):
            await writer.write(view[start : start + _PIECE])
