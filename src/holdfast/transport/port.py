"""What the runtime needs of an HTTP client, and nothing more: send one request, read its bytes.

This module must never import an HTTP client: a user may bring a transport of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
from msgspec import Struct

from holdfast.core.limits import check_seconds


class HttpRequest(Struct, frozen=True):
    """One request, with the headers exactly as they go out; its repr shows no header and no body."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        return f"HttpRequest({self.method}, {len(self.headers)} headers, {len(self.body)} bytes)"


class Timeouts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Four limits of one request, in seconds; None means no limit.

    Args:
        connect: making a connection: name resolution, TCP, proxy, TLS.
        first_byte: from the connection to the first byte of the body, including the upload.
        between_chunks: between two pieces of content. Keep-alive comments do not count as content,
            and the time that the reader needs between two reads does not count.
        total: the whole request.

    >>> Timeouts(between_chunks=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: timeouts.between_chunks: must be a finite number above 0, got 0
    """

    connect: float | None = 10.0
    first_byte: float | None = 60.0
    between_chunks: float | None = 60.0
    total: float | None = 600.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_seconds(f"timeouts.{name}", getattr(self, name))

    def for_whole_response(self) -> Timeouts:
        """The limits for an answer that is not streamed: its first byte comes when all of it is made.

        >>> Timeouts(total=300).for_whole_response().first_byte
        300
        """
        return msgspec.structs.replace(self, first_byte=self.total)


class Response(Protocol):
    """One response, from its headers on."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case; repeated ones are joined by a comma."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body, decompressed; b"" at its end and ever after.

        Raises:
            TransportError: the body was cut, or a timeout passed.
        """
        ...

    def note_content(self) -> None:
        """The last piece held content, so the clock of `between_chunks` starts again.

        Needed for an event stream, where comments keep a dead connection looking alive; in any
        other body every byte that is not white space is content.
        """
        ...


class Transport(Protocol):
    """Sends requests. It must not retry, follow a redirect or read a wire."""

    def send(
        self, request: HttpRequest, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Response]:
        """Send one request; leaving the context before the end of the body drops the connection.

        Raises:
            TransportError: on entering, when no response came; `info.landed` says whether the
                request can have been processed.
        """
        ...

    async def aclose(self) -> None:
        """Drop every connection."""
        ...
