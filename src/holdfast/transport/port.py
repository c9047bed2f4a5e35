"""The interface between the runtime and an HTTP client: send one request, read its bytes.

A transport may add a note to a cancellation, which names the server that was silent. This module imports
no HTTP client, because users may implement their own transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat


class HttpRequest(Struct, frozen=True):
    """One request, with its headers exactly as they are sent; its repr shows no header and no body.

    Args:
        method: the method.
        url: the address; what is percent-encoded in it is sent so.
        headers: the headers.
        body: the body.
        is_once: it must reach the server once at most: it goes out on a new connection, because a kept one that
            ends does not say whether its server has begun to work.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_once: bool = False

    def __repr__(self) -> str:
        return f"HttpRequest({self.method}, {len(self.headers)} headers, {len(self.body)} bytes)"


class Timeouts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Five limits of one request, in seconds; None means no limit.

    Args:
        connect: for the connection: name resolution, TCP, proxy, TLS.
        first_byte: from the connection to the first byte of the body, including the upload.
        between_chunks: between two pieces of content. Keep-alive comments are not content, and the
            time that the reader spends between two reads does not count.
        total: the whole request.
        first_content: between two signs of life before the first content, where a keep-alive comment is
            one. None applies `between_chunks` there too, and comments do not count.

    >>> Timeouts(between_chunks=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: timeouts.between_chunks: must be a finite number above 0, got 0
    """

    connect: PositiveFloat | None = 10.0
    first_byte: PositiveFloat | None = 60.0
    between_chunks: PositiveFloat | None = 60.0
    total: PositiveFloat | None = 600.0
    first_content: PositiveFloat | None = None

    def __post_init__(self) -> None:
        check_fields(self, "timeouts.")

    def for_whole_response(self) -> Timeouts:
        """Return the limits for a response that is not streamed: its first byte comes when it is complete.

        >>> Timeouts(total=300).for_whole_response().first_byte
        300
        """
        return msgspec.structs.replace(self, first_byte=self.total)


class Response(Protocol):
    """One response, after its headers arrived."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case; repeated ones are joined by a comma."""
        ...

    async def read(self, *, gather: bool = False) -> bytes:
        """Return the next decompressed piece of the body; b"" at and after its end.

        Args:
            gather: return a larger piece, for a reader that nobody watches: the rest of the body at its
                end, and until then what has arrived, at least about four times a second.

        Raises:
            TransportError: the body was cut, or a timeout expired.
        """
        ...

    def read_arrived(self) -> bytes:
        """Return, without waiting, what has arrived of the body since the last piece; b"" for nothing."""
        ...

    def note_content(self) -> None:
        """Record that the last piece held content, which restarts the `between_chunks` limit.

        It is needed for an event stream, where comments arrive although the model is stuck. In any
        other body, every byte that is not whitespace is content. The first content ends the
        `first_content` limit.
        """
        ...


class Transport(Protocol):
    """Sends requests. It does not retry, follow redirects or parse bodies.

    It may send a request once more if a kept connection ended without one byte of a response, unless the request
    `is_once`.
    """

    def send(
        self, request: HttpRequest, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Response]:
        """Send one request; leaving the context before the end of the body drops the connection.

        Raises:
            TransportError: on entering, if no response came; `info.landed` tells whether the
                request may have taken effect.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class SilenceNote(str):
    """A note of the transport. Notes of others are not shown to users."""

    __slots__ = ()


def read_silence_notes(stopped: BaseException | None) -> str:
    """Return the notes of the transport on an exception, as one text.

    >>> cancelled = ValueError()
    >>> cancelled.add_note("written by a tool")
    >>> cancelled.add_note(SilenceNote("api.example had sent nothing for 60 s."))
    >>> read_silence_notes(cancelled)
    'api.example had sent nothing for 60 s.'
    """
    notes = getattr(stopped, "__notes__", ())
    return " ".join(note for note in notes if isinstance(note, SilenceNote))
