"""Reads images, audio and files in the replies of this wire.

This module never raises on invalid base64. The caller stores such a part unchanged.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping

from holdfast.codecs.json_text import string_or_empty
from holdfast.core.messages import Media


def read_media(part: Mapping[str, object]) -> Media | None:
    r"""Read an `inlineData` or `fileData` part; None if it is neither or cannot be read.

    >>> read_media({"inlineData": {"mimeType": "image/png", "data": "iVA="}}).data
    b'\x89P'
    """
    inline, file = part.get("inlineData"), part.get("fileData")
    extra = {name: value for name, value in part.items() if name not in ("inlineData", "fileData")}
    if isinstance(inline, dict):
        data = _decode_base64(inline.get("data"))
        return (
            Media(string_or_empty(inline.get("mimeType")), data=data, extra=extra or None)
            if data
            else None
        )
    if isinstance(file, dict) and (url := string_or_empty(file.get("fileUri"))):
        return Media(string_or_empty(file.get("mimeType")), url=url, extra=extra or None)
    return None


def _decode_base64(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        # binascii.Error is a ValueError, and text that is not ASCII raises one too.
        return None
