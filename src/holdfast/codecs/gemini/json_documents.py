"""Splits a sequence of JSON objects while the bytes arrive.

Without `alt=sse` a stream is one JSON array, sent in pieces; some gateways send one object per
line. Only brackets and quotes are examined, and each byte once, so a hostile body costs linear
time. This module does not check that the objects are valid JSON.
"""

from __future__ import annotations

import re

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class DocumentSplitter:
    r"""Takes the bytes after the opening bracket of the array, and returns complete top-level objects.

    Attributes:
        ended: the bracket that closes the array came.

    >>> splitter = DocumentSplitter()
    >>> splitter.feed(b'{"a": "}"}\r\n,{"b"')
    [b'{"a": "}"}']
    >>> splitter.feed(b': 1}]')
    [b'{"b": 1}']
    >>> splitter.ended
    True
    """

    __slots__ = (
        "_brackets",
        "_buffer",
        "_depth",
        "_in_text",
        "_object_start",
        "_position",
        "ended",
    )

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._object_start = 0
        self._depth = 0
        self._brackets = 0
        self._in_text = False
        self.ended = False

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes of the incomplete object."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the objects that these bytes complete; none after the end."""
        if self.ended:
            return []
        buffer = self._buffer
        buffer += data
        documents: list[bytes] = []
        while (
            mark := (_INSIDE if self._in_text else _OUTSIDE).search(buffer, self._position)
        ) is not None:
            self._position = mark.end()
            if self._closes_array(buffer[mark.start()], documents):
                buffer.clear()
                return documents
        self._position = max(self._position, len(buffer))
        cut = self._object_start if self._depth else len(buffer)
        del buffer[:cut]
        self._position -= cut
        self._object_start = 0
        return documents

    def _closes_array(self, byte: int, documents: list[bytes]) -> bool:
        """Process one byte, and return whether it closes the array."""
        if byte == 0x22:  # a quote
            self._in_text = not self._in_text
        elif byte == 0x5C:  # a backslash hides the next byte, which may be in the next piece
            self._position += 1
        elif byte == 0x7B:
            if not self._depth:
                self._object_start = self._position - 1
            self._depth += 1
        elif byte == 0x7D:
            if self._depth == 1:
                documents.append(bytes(self._buffer[self._object_start : self._position]))
            self._depth = max(self._depth - 1, 0)
        elif not self._depth:
            # An array inside the outer one is ignored, and its end is not the end of the outer one.
            self._brackets += 1 if byte == 0x5B else -1
            self.ended = self._brackets < 0
        return self.ended
