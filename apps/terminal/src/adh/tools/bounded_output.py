r"""The output of a command, of which the beginning and the end are kept.

However much a command prints, this takes bounded memory. It must never pass a control character on.
"""

from __future__ import annotations

import re
from collections import deque

from holdfast.middleware import escape_invisible

KEPT_BYTES = 20_000
"""How much is kept of the beginning of a stream, and how much of its end."""

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?"
)
_BINARY_SHARE = 0.3


class BoundedOutput:
    r"""What a command wrote to one stream.

    Args:
        kept_bytes: how much is kept of its beginning, and how much of its end.

    >>> output = BoundedOutput(kept_bytes=3)
    >>> output.add(b"abcdefghij")
    >>> output.read_text()
    'abc\n[cut: 4 bytes are not shown]\nhij'
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        """Add what was written next."""
        self.total += len(data)
        room = self._kept - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data[-self._kept :])
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= self._kept:
            self._tail_bytes -= len(self._tail.popleft())

    @property
    def dropped(self) -> int:
        """How many bytes are not kept."""
        return self.total - len(self._head) - min(self._tail_bytes, self._kept)

    def read_text(self) -> str:
        """Return the beginning and the end as printable text; a note says how much is missing."""
        head, tail = bytes(self._head), b"".join(self._tail)[-self._kept :]
        if is_binary(head):
            return f"[binary output: {self.total:,} bytes are not shown]"
        if not self.dropped:
            return clean_output((head + tail).decode("utf-8", "replace"))
        return (
            f"{clean_output(head.decode('utf-8', 'replace'))}\n"
            f"[cut: {self.dropped:,} bytes are not shown]\n"
            f"{clean_output(tail.decode('utf-8', 'replace'))}"
        )


def is_binary(data: bytes) -> bool:
    r"""Whether bytes are no text: they hold a NUL, or much that is not UTF-8.

    >>> is_binary(b"\x00"), is_binary("é\x1b[1m".encode())
    (True, False)
    """
    if b"\0" in data:
        return True
    wrong = data.decode("utf-8", "replace").count("\ufffd")
    return wrong > 4 and wrong > len(data) * _BINARY_SHARE


def clean_output(text: str) -> str:
    r"""Return output as a terminal would leave it, without colours, and with other controls escaped.

    >>> clean_output("10%\r100%\n\x1b[31mred\x1b[0m\x07")
    '100%\nred\\x07'
    """
    plain = _ESCAPE_SEQUENCE.sub("", text)
    if "\r" in plain:
        plain = "\n".join(map(_drop_overwritten, plain.split("\n")))
    return escape_invisible(plain)


def _drop_overwritten(line: str) -> str:
    """Return what a line shows after its last carriage return, as a progress bar leaves it."""
    return line.rstrip("\r").rpartition("\r")[2]
