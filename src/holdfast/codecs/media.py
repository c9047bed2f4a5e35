"""Images and files that are sent inline: checks that the bytes match the media type.

A server rejects every request whose history contains a damaged image. This module looks only at
the first bytes; it never decodes an image and never fetches a URL.
"""

from __future__ import annotations

import base64
import binascii

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media

_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}
IMAGES = frozenset({*_SIGNATURES, "image/webp"})
"""The image types that the vendors accept."""

_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}
_PDF_WITHIN = 1024


def media_type_of(media: Media) -> str:
    """Return the media type without parameters, in lower case; `image/jpg` becomes `image/jpeg`.

    A wildcard type (`image/*`) is replaced by the type that a `data:` URL names.

    >>> media_type_of(Media("Image/JPG; q=1", url="https://example.org/a"))
    'image/jpeg'
    """
    declared = media.media_type
    if declared.endswith("*") and (media.url or "")[:5].lower() == "data:":
        declared = (media.url or "")[5:].partition(",")[0]
    kind = declared.partition(";")[0].strip().lower()
    return _ALIASES.get(kind, kind)


def inline_bytes(media: Media) -> bytes | None:
    """Return the bytes of inline media or of a `data:` URL; None for any other URL.

    Raises:
        ConfigurationError: a `data:` URL is not base64, or the bytes do not match the type.

    >>> inline_bytes(Media("text/plain", url="data:text/plain;base64,aGk="))
    b'hi'
    """
    data = media.data
    url = media.url or ""
    if data is None and url[:5].lower() == "data:":
        head, comma, payload = url.partition(",")
        try:
            if not comma or not head.lower().endswith(";base64"):
                raise ValueError("not base64")
            data = base64.b64decode(payload, validate=True)
        except (ValueError, binascii.Error):
            raise ConfigurationError(
                "media", "the data: address is not base64", fix="give the bytes as data="
            ) from None
    if data is not None:
        _check_signature(media_type_of(media), data)
    return data


def media_placeholder(media: Media) -> str:
    """Return the text that replaces media of the assistant on a wire that does not accept them.

    >>> media_placeholder(Media("image/png", data=b"..."))
    '[Here the assistant made a file of type image/png.]'
    """
    return f"[Here the assistant made a file of type {media_type_of(media)[:80]}.]"


def encode_base64(data: bytes) -> str:
    """Encode bytes as standard base64, on one line."""
    return base64.b64encode(data).decode("ascii")


def _check_signature(kind: str, data: bytes) -> None:
    if not data:
        raise ConfigurationError("media", "is empty")
    if kind == "application/pdf":
        valid = b"%PDF-" in data[:_PDF_WITHIN]
    elif kind == "image/webp":
        valid = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    else:
        valid = kind not in _SIGNATURES or data.startswith(_SIGNATURES[kind])
    if not valid:
        raise ConfigurationError(
            "media", f"its bytes are not {kind}", fix="check the file, or name its real type"
        )
