"""Cuts a run of JSON objects into its objects, as the bytes come in.

Without `alt=sse` a stream is one JSON array, sent piece by piece; some gateways send one object a
line. Only brackets and quotes are looked at, each byte once, so that a reply is shown as it comes
and a hostile body costs linear time. This module must never decide whether an object is good JSON.
"""

from __future__ import annotations

import re

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class DocumentSplitter:
    r"""Takes the bytes after the array's first bracket and gives whole top-level objects.

    Attributes:
        ended: the bracket that closes the array has come.

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
        """How many bytes wait for the end of their object."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that these bytes complete; none after the end."""
        if self.ended:
            return []
        held = self._buffer
        held += data
        whole: list[bytes] = []
        while (
            mark := (_INSIDE if self._in_text else _OUTSIDE).search(held, self._position)
        ) is not None:
            self._position = mark.end()
            if self._closes_array(held[mark.start()], whole):
                held.clear()
                return whole
        self._position = max(self._position, len(held))
        cut = self._object_start if self._depth else len(held)
        del held[:cut]
        self._position -= cut
        self._object_start = 0
        return whole

    def _closes_array(self, sign: int, whole: list[bytes]) -> bool:
        """Note one sign; True when it is the bracket that closes the array."""
        if sign == 0x22:  # a quote
            self._in_text = not self._in_text
        elif sign == 0x5C:  # a backslash hides the next byte, which may be in the next piece
            self._position += 1
        elif sign == 0x7B:
            if not self._depth:
                self._object_start = self._position - 1
            self._depth += 1
        elif sign == 0x7D:
            if self._depth == 1:
                whole.append(bytes(self._buffer[self._object_start : self._position]))
            self._depth = max(self._depth - 1, 0)
        elif not self._depth:
            # A list inside the array is nothing of ours, and its end is not the array's.
            self._brackets += 1 if sign == 0x5B else -1
            self.ended = self._brackets < 0
        return self.ended
