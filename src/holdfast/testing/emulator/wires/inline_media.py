"""Reads the pictures and files of requests, so that a script sees the bytes that were sent."""

from __future__ import annotations

import base64
import binascii

from holdfast.core.messages import Media


def read_inline(kind: str, data: object, name: str) -> Media:
    r"""Return content that a request holds in base64; without such content, only what it is called.

    Args:
        kind: the media type.
        data: the base64, or anything else.
        name: what the wire calls such content.

    >>> read_inline("image/png", "iVA=", "image").data
    b'\x89P'
    >>> read_inline("image/*", None, "image").url
    'inline:image'
    """
    if isinstance(data, str):
        try:
            return Media(kind, data=base64.b64decode(data, validate=True))
        except binascii.Error:
            pass
    return Media(kind, url=f"inline:{name}")


def read_url(kind: str, url: object, name: str) -> Media:
    """Return what an address is of: the content of a data URL, or the address.

    Args:
        kind: the media type, if the address does not name it.
        url: the address, or anything else.
        name: what the wire calls such content.

    >>> read_url("image/*", "data:image/png;base64,iVA=", "image").media_type
    'image/png'
    """
    if not isinstance(url, str):
        return Media(kind, url=f"inline:{name}")
    head, comma, data = url.partition(",")
    named, is_base64, _ = head.removeprefix("data:").partition(";base64")
    if head.startswith("data:") and comma and is_base64:
        return read_inline(named or kind, data, name)
    return Media(kind, url=url)
