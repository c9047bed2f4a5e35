"""Reads pictures, sounds and files as front ends send them. It must never fetch one."""

from __future__ import annotations

import binascii
from base64 import b64decode
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media

_LONGEST_TYPE = 200


class MediaFields(Struct, frozen=True):
    """How the protocol names the fields of a medium, for errors.

    Args:
        content: the field of the address or the data.
        media_type: the field of the media type.
    """

    content: str
    media_type: str


def read_media_url(
    url: str, media_type: str, fields: MediaFields, name: str | None = None
) -> Media:
    """Return the medium of an address of the web, or of a data URL.

    Args:
        url: the address.
        media_type: the type of the content; a data URL has it itself.
        fields: the names of the fields.
        name: the name of the file.

    Raises:
        ConfigurationError: it is neither, or its type is not a media type.
    """
    if url.startswith("data:"):
        return _read_data_url(url, fields, name)
    if not url.startswith(("https://", "http://")):
        raise ConfigurationError(fields.content, "must begin with https:, http: or data:")
    return Media(_check_type(media_type, fields), url=url, name=name)


def read_media_data(data: str, media_type: str, fields: MediaFields) -> Media:
    """Return the medium of base64 text. Raises ConfigurationError if it is not one.

    >>> read_media_data("SGk=", "text/plain", MediaFields("value", "mimeType")).data
    b'Hi'
    """
    return Media(_check_type(media_type, fields), data=_decode_base64(data, fields))


def _read_data_url(url: str, fields: MediaFields, name: str | None) -> Media:
    head, comma, body = url.removeprefix("data:").partition(",")
    kind, *options = head.split(";")
    if not comma or "/" not in kind or len(kind) > _LONGEST_TYPE:
        raise ConfigurationError(
            fields.content, "is not a data URL", fix="Write data:image/png;base64,..."
        )
    data = _decode_base64(body, fields) if "base64" in options else unquote_to_bytes(body)
    return Media(kind, data=data, name=name)


def _decode_base64(text: str, fields: MediaFields) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(fields.content, "is not valid base64") from None
    if not data:
        raise ConfigurationError(fields.content, "is empty")
    return data


def _check_type(media_type: str, fields: MediaFields) -> str:
    if "/" not in media_type or len(media_type) > _LONGEST_TYPE:
        raise ConfigurationError(
            fields.media_type,
            f"is {media_type[:_LONGEST_TYPE]!r}",
            fix=f"Write the whole type, such as image/png, in at most {_LONGEST_TYPE} characters",
        )
    return media_type
