"""Pictures, sound and files in this wire's replies, as media parts.

This module must never raise on base64 that is cut or strange, nor drop it: such a part is kept as
it came.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping

from holdfast.core.messages import Media


def read_media(part: Mapping[str, object]) -> Media | None:
    r"""An `inlineData` or `fileData` part as media; None when it is neither, or cannot be read.

    >>> read_media({"inlineData": {"mimeType": "image/png", "data": "iVA="}}).data
    b'\x89P'
    """
    inline, file = part.get("inlineData"), part.get("fileData")
    extra = {name: value for name, value in part.items() if name not in ("inlineData", "fileData")}
    if isinstance(inline, dict):
        data = _decode_base64(inline.get("data"))
        return (
            Media(_string_or_empty(inline.get("mimeType")), data=data, extra=extra or None)
            if data
            else None
        )
    if isinstance(file, dict) and (url := _string_or_empty(file.get("fileUri"))):
        return Media(_string_or_empty(file.get("mimeType")), url=url, extra=extra or None)
    return None


def _decode_base64(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        # binascii.Error is a ValueError, and so is text that is not ASCII.
        return None


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
