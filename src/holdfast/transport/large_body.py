"""A request's body that is large: a long history, sent as it is.

The client library joins the headers and the body to one block, which copies the body, and reads a
body of more than a megabyte as a file, in small pieces. This module must never change a byte of it.
"""

from __future__ import annotations

from typing import Final

from aiohttp import Payload
from aiohttp.abc import AbstractStreamWriter

LARGE: Final = 2**16
"""Bytes from which a copy costs more than a second write to the socket."""

_PIECE = 2**20


class LargeBody(Payload):
    """Bytes that are written after the headers, a megabyte at a time.

    Args:
        value: the body.
    """

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all of it, no faster than the connection takes it."""
        writer.send_headers()
        if len(self._value) <= _PIECE:
            await writer.write(self._value)
            return
        whole = memoryview(self._value)
        for start in range(0, len(whole), _PIECE):
            await writer.write(whole[start : start + _PIECE])
