"""Turns pictures, sounds and files as OpenAI's APIs write them into media. It must never fetch one."""

from __future__ import annotations

import mimetypes
import re
from base64 import b64decode
from binascii import Error as Base64Error

from holdfast.core.messages import Media
from holdfast.server.problem_responses import ProblemError, make_problem

_DATA_URL = re.compile(r"data:(?P<type>[^;,]{1,100})?(?:;[^,;]{1,100})*;base64,", re.IGNORECASE)


def refuse(field: str, detail: str, code: str = "invalid_value", *, fix: str = "") -> ProblemError:
    """Return the refusal of a request because of one field."""
    return ProblemError(make_problem(400, code, detail, field=field, fix=fix))


def make_media_from_url(url: str, field: str, default: str, name: str | None = None) -> Media:
    """Return the medium of an address or of a `data:` URL.

    Args:
        url: the address.
        field: the field of the request, for errors.
        default: the media type if nothing else has it.
        name: the name of the file.

    Raises:
        ProblemError: it is neither.

    >>> make_media_from_url("data:image/png;base64,iVBORw==", "url", "image/*").media_type
    'image/png'
    """
    found = _DATA_URL.match(url)
    if found is not None:
        data = decode_base64(url[found.end() :], field)
        return Media(found["type"] or default, data=data, name=name)
    if not url.startswith(("https://", "http://")):
        raise refuse(field, "is neither an https: address nor a data: URL with base64")
    guessed, _ = mimetypes.guess_type(url.partition("?")[0])
    return Media(guessed or default, url=url, name=name)


def make_media_from_data(data: str, media_type: str, field: str, name: str | None = None) -> Media:
    """Return the medium of base64 text, or of a `data:` URL. Raises ProblemError."""
    if data.startswith("data:"):
        return make_media_from_url(data, field, media_type, name)
    return Media(media_type, data=decode_base64(data, field), name=name)


def guess_file_type(name: str | None) -> str:
    """Return the media type that the name of a file suggests.

    >>> guess_file_type("a.pdf"), guess_file_type(None)
    ('application/pdf', 'application/octet-stream')
    """
    return mimetypes.guess_type(name or "")[0] or "application/octet-stream"


def decode_base64(text: str, field: str) -> bytes:
    """Return the bytes of base64 text. Raises ProblemError."""
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise refuse(field, "is not base64") from None
