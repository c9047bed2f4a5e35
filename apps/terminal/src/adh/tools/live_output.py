"""Live output of a command: at most ten updates a second, and of the whole the beginning and the end.

It takes bounded memory for any output, and must never pass a control character on. It must never slow the command
down: output that cannot be shown in time is left out, and counted.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections import deque
from collections.abc import Callable
from typing import Literal

from adh.storage.call_context import ToolOutput
from holdfast.middleware import escape_invisible

KEPT_BYTES = 20_000
"""How much is kept of the beginning of a stream, and how much of its end."""

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?"
)
_BINARY_SHARE = 0.3


class BoundedOutput:
    r"""The output of a command on one stream.

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
        """Add the next output."""
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
    """Return the part of a line after its last carriage return, as a progress bar leaves it."""
    return line.rstrip("\r").rpartition("\r")[2]


INTERVAL = 0.1
"""Seconds between two updates."""
_LONGEST_UPDATE = 8_000

Stream = Literal["stdout", "stderr"]


class LiveOutput:
    """Streams the output of a command as notices.

    Args:
        emit: passes a notice on.
    """

    def __init__(self, emit: Callable[[ToolOutput], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[Stream, str]] = []
        self._length = 0
        self._dropped = 0
        make_decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {
            "stdout": make_decoder("replace"),
            "stderr": make_decoder("replace"),
        }

    def add(self, stream: Stream, data: bytes) -> None:
        """Add the next output; it is shown with the next update."""
        if self._length >= _LONGEST_UPDATE:
            self._dropped += len(data)
            self._decoders[stream].reset()
        else:
            text = self._decoders[stream].decode(data)
            room = _LONGEST_UPDATE - self._length
            self._dropped += max(len(text) - room, 0)
            self._waiting.append((stream, text[:room]))
            self._length += len(text[:room])
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._show)

    def close(self) -> None:
        """Show the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._show()

    def _show(self) -> None:
        self._timer = None
        waiting, dropped = self._waiting, self._dropped
        self._waiting, self._length, self._dropped = [], 0, 0
        for stream, text in _join_neighbours(waiting):
            if text:
                self._emit(ToolOutput(stream, clean_output(text)))
        if dropped:
            self._emit(ToolOutput("stdout", f"\n[{dropped:,} bytes are not shown]\n"))


def _join_neighbours(pieces: list[tuple[Stream, str]]) -> list[tuple[Stream, str]]:
    joined: list[tuple[Stream, str]] = []
    for stream, text in pieces:
        if joined and joined[-1][0] == stream:
            joined[-1] = (stream, joined[-1][1] + text)
        else:
            joined.append((stream, text))
    return joined
