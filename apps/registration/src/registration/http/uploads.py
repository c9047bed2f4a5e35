"""A photo in a form, written to the object store while it is read, within limits.

The kind of the picture is recognized by its first bytes; names and headers are the client's word alone. This module
must never hold a whole photo in memory, and must never look into a picture.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from registration.http.problems import Problem, unavailable
from registration.photos.naming import UPLOADS
from registration.photos.object_store import NewObject, ObjectStore, ObjectStoreError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

SECONDS: Final = 120.0
_REST_SECONDS: Final = 5.0
_FIELDS: Final = ("session_id", "message_id")
_MOST_OF_FIELD: Final = 100  # bytes
_SUFFIXES: Final = {
    "image/jpeg": ".jpeg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/heic": ".heic",
}
NOT_SAVED: Final = "I cannot save photos right now, so this one was not saved. Please send it again in a few minutes."

Authorise = Callable[[str], Awaitable[None]]
"""Raises Problem if a session may not send a photo."""


class Upload(Struct, frozen=True):
    """A photo that was read and is kept.

    Args:
        session_id: the session.
        message_id: the client's name for the upload, or None.
        name: the name of the object.
        hash: of the content.
    """

    session_id: str
    message_id: str | None
    name: str
    hash: str


class Limits(Struct, frozen=True):
    """How much is read.

    Args:
        body: bytes of the body.
        photo: bytes of the photo.
    """

    body: int
    photo: int


async def read_upload(
    request: Request, objects: ObjectStore, limits: Limits, authorise: Authorise
) -> Upload:
    """Read a form with a photo, and keep the photo.

    Args:
        request: the request.
        objects: where the photo is kept.
        limits: how much is read.
        authorise: called with the session before the photo is kept, and before it is read if the form
            names the session first.

    Raises:
        Problem: the form or the photo cannot be taken; nothing is kept.
    """
    boundary = _read_boundary(request)
    stream = request.stream()
    try:
        async with asyncio.timeout(SECONDS), objects.create() as new:
            form = _Form(new, limits, authorise)
            declared = request.headers.get("content-length", "0")
            if not declared.isdecimal() or int(declared) > limits.body:
                raise _too_large(limits)
            await form.read(stream, boundary)
            return await form.keep()
    except Problem:
        await _read_rest(stream, limits.body)
        raise
    except ObjectStoreError:
        await _read_rest(stream, limits.body)
        raise Problem("unavailable", NOT_SAVED, 30.0) from None
    except ClientDisconnect:
        raise Problem("bad_request", "The photo did not arrive completely.") from None
    except TimeoutError:
        raise unavailable() from None


def _read_boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 0 < len(boundary) <= 200:
        raise Problem("unsupported", "Send a form, with Content-Type: multipart/form-data.")
    return boundary


async def _read_rest(stream: AsyncIterator[bytes], most: int) -> None:
    """Read on for a moment: a client that is still sending would not read the answer."""
    try:
        async with asyncio.timeout(_REST_SECONDS):
            async for chunk in stream:
                most -= len(chunk)
                if most < 0:
                    return
    except (ClientDisconnect, TimeoutError):
        return


class _Form:
    """The form while it is read.

    Args:
        new: takes the photo.
        limits: how much is read.
        authorise: called with the session.
    """

    def __init__(self, new: NewObject, limits: Limits, authorise: Authorise) -> None:
        self._new = new
        self._limits = limits
        self._authorise = authorise
        self._fields: dict[str, str] = {}
        self._media_type: str | None = None
        self._beginning = b""
        self._size = 0
        self._has_file = False
        self._is_authorised = False

    async def read(self, stream: AsyncIterator[bytes], boundary: bytes) -> None:
        """Read the whole form. Raises Problem."""
        parts = _Parts()
        parser = MultipartParser(boundary, parts.callbacks())
        count = 0
        async for chunk in stream:
            count += len(chunk)
            if count > self._limits.body:
                raise _too_large(self._limits)
            try:
                parser.write(chunk)
            except (MultipartParseError, UnicodeError):
                raise Problem("bad_request", "The form is not well formed.") from None
            for name, data in parts.take():
                await self._take(name, data)
        if not parts.ended:
            raise Problem("bad_request", "The form is not complete.")

    async def keep(self) -> Upload:
        """Keep the photo. Raises Problem."""
        if not self._has_file:
            raise Problem("invalid", "file: choose a photo.")
        await self._begin_photo()
        await self._check_session()
        stem = secrets.token_hex(16)
        name = await self._new.name(UPLOADS, stem, _SUFFIXES[self._media_type or "image/jpeg"])
        await self._new.keep(name, {})
        session, message = self._fields["session_id"], self._fields.get("message_id")
        return Upload(session, message or None, name, self._new.kept.hash)

    async def _take(self, name: str, data: bytes | None) -> None:
        """Take a piece of a part; None is its end."""
        if name == "file":
            await self._take_photo(data)
        elif name in _FIELDS:
            if data is not None:
                self._add_to_field(name, data)
            elif name == "session_id":
                await self._check_session()

    def _add_to_field(self, name: str, data: bytes) -> None:
        text = self._fields.get(name, "") + data.decode("ascii", "replace")
        if len(text) > _MOST_OF_FIELD or not text.isascii() or not text.isprintable():
            raise Problem("invalid", f"{name}: use at most {_MOST_OF_FIELD} plain characters.")
        self._fields[name] = text

    async def _check_session(self) -> None:
        if self._is_authorised:
            return
        if not self._fields.get("session_id"):
            raise Problem("invalid", "session_id: it is missing.")
        await self._authorise(self._fields["session_id"])
        self._is_authorised = True

    async def _take_photo(self, data: bytes | None) -> None:
        if data is None:
            self._has_file = True
            return
        if self._has_file:
            raise Problem("invalid", "file: send one photo at a time.")
        self._size += len(data)
        if self._size > self._limits.photo:
            raise _too_large(self._limits)
        if self._media_type is None:
            self._beginning += data
            if len(self._beginning) >= NEEDED:
                await self._begin_photo()
        else:
            await self._new.write(data)

    async def _begin_photo(self) -> None:
        """Recognize the kind of the picture by its first bytes. Raises Problem."""
        if self._media_type is not None:
            return
        if not self._beginning:
            raise Problem("invalid", "file: it is empty.")
        self._media_type = recognise_picture(self._beginning)
        if self._media_type is None:
            raise Problem(
                "unsupported",
                "That is not a photo I can open. Send a JPEG, PNG, WebP or HEIC file.",
            )
        await self._new.write(self._beginning)


class _Parts:
    """Collects the findings of the parser: names of parts with their pieces, and None at their end."""

    def __init__(self) -> None:
        self._found: list[tuple[str, bytes | None]] = []
        self._name = ""
        self._header = b""
        self._value = b""
        self.ended = False

    def callbacks(self) -> MultipartCallbacks:
        """Return the functions that the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
            "on_header_field": self._add_header,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_end": self._end,
        }

    def take(self) -> list[tuple[str, bytes | None]]:
        """Return the findings since the last call."""
        found, self._found = self._found, []
        return found

    def _begin(self) -> None:
        self._name = ""

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            self._name = options.get(b"name", b"").decode("ascii", "replace")
        self._header, self._value = b"", b""

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._found.append((self._name, data[start:end]))

    def _end_part(self) -> None:
        self._found.append((self._name, None))

    def _end(self) -> None:
        self.ended = True


def _too_large(limits: Limits) -> Problem:
    return Problem("too_large", f"A photo has at most {limits.photo // 1_000_000} MB.")


NEEDED: Final = 32  # bytes that show the kind

# The brands of ISO files that hold HEVC pictures; `mif1` and `msf1` name the container alone.
_HEIC_BRANDS: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"})
_CONTAINER_BRANDS: Final = frozenset({b"mif1", b"msf1"})


def recognise_picture(beginning: bytes) -> str | None:
    """Return the media type of a picture that is accepted, or None.

    Args:
        beginning: the first `NEEDED` bytes, or all there are.

    >>> recognise_picture(bytes.fromhex("ffd8ffe000104a464946"))
    'image/jpeg'
    >>> recognise_picture(b"GIF89a")
    """
    if beginning.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    if beginning[4:8] == b"ftyp" and _holds_heic(beginning):
        return "image/heic"
    return None


def _holds_heic(beginning: bytes) -> bool:
    """Return whether the brands of an ISO file say HEIC."""
    major = beginning[8:12]
    end = min(int.from_bytes(beginning[:4]), len(beginning))
    others = {beginning[at : at + 4] for at in range(16, end - 3, 4)}
    return major in _HEIC_BRANDS or (
        major in _CONTAINER_BRANDS and not others.isdisjoint(_HEIC_BRANDS | {b"MiHE"})
    )
