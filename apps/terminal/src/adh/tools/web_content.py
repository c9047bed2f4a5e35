"""The content of a web page: unpacked within bounds, and decoded.

It must never unpack more than what is asked for: a small body can unpack to gigabytes.
"""

from __future__ import annotations

import codecs
import re
import zlib

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_META_BYTES = 4_096


class UnpackError(ValueError):
    """A body cannot be unpacked."""


class BoundedBody:
    """A body that arrives in blocks, of which so many bytes are kept.

    Args:
        most_bytes: how many bytes are kept, after unpacking.
        packing: the value of Content-Encoding.

    Raises:
        UnpackError: the packing is unknown.

    >>> body = BoundedBody(3, "")
    >>> body.add(b"abcd"), body.content, body.is_cut
    (False, b'abc', True)
    """

    def __init__(self, most_bytes: int, packing: str) -> None:
        self._most = most_bytes
        self._kept = bytearray()
        self._packing = packing.strip().lower()
        self._unpacker: zlib._Decompress | None = None
        if self._packing in ("gzip", "x-gzip"):
            self._unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif self._packing == "deflate":
            self._unpacker = zlib.decompressobj()
        elif self._packing not in ("", "identity"):
            raise UnpackError("is packed in a way that is not supported")

    @property
    def content(self) -> bytes:
        """What is kept."""
        return bytes(self._kept[: self._most])

    @property
    def is_cut(self) -> bool:
        """Whether there was more."""
        return len(self._kept) > self._most

    def add(self, data: bytes) -> bool:
        """Add a block; whether more is wanted.

        Raises:
            UnpackError: it cannot be unpacked.
        """
        # One byte more tells that there was more.
        room = self._most + 1 - len(self._kept)
        if self._unpacker is not None:
            try:
                data = self._unpacker.decompress(data, room)
            except zlib.error:
                raise UnpackError("cannot be unpacked") from None
        self._kept += data[:room]
        return len(self._kept) <= self._most


def find_encoding(content: bytes, content_type_charset: str | None, wanted: str | None) -> str:
    r"""Return the encoding of a page: as asked for, by its mark, its header, its `<meta>`, or UTF-8.

    Args:
        content: the beginning of the page.
        content_type_charset: the charset of its Content-Type.
        wanted: the encoding that the caller asks for.

    Raises:
        LookupError: the caller asks for an encoding that does not exist.

    >>> find_encoding(b'<meta charset="latin-1">', None, None)
    'iso8859-1'
    """
    if wanted:
        return _find_text_codec(wanted)
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return encoding
    in_page = _CHARSET.search(content[:_META_BYTES])
    for name in (content_type_charset, in_page[1].decode("ascii", "replace") if in_page else None):
        if name:
            try:
                return _find_text_codec(name)
            except LookupError:
                continue
    return "utf-8"


def _find_text_codec(name: str) -> str:
    """Return the name of a codec that makes text of bytes; Python has others, such as zip."""
    found = codecs.lookup(name)
    if not getattr(found, "_is_text_encoding", True):
        raise LookupError(name)
    return found.name
