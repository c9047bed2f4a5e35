"""Cuts a growing Markdown text into chunks that no longer change, and a last one that may.

Only the last chunk is rendered again when text comes, and it is bounded, so a long answer costs no more for
each piece than a short one. It is pure, and must never change what the text says.
"""

from __future__ import annotations

import re

from msgspec import Struct

MOST_LINES = 100
"""The lines of a chunk: a longer block of code or list is cut."""

MOST_CHARACTERS = 6_000
"""The characters of a chunk."""

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)")


class MarkdownChunk(Struct, frozen=True):
    """A part of a Markdown text that is rendered alone.

    Args:
        text: the part, as Markdown.
        joined: whether it continues the block of the chunk before, without an empty line between.
    """

    text: str
    joined: bool = False


class MarkdownChunks:
    r"""The chunks of a text that comes in pieces of any size.

    >>> chunks = MarkdownChunks()
    >>> chunks.feed("One.\n\nTw")
    >>> chunks.finished, chunks.last
    ([], MarkdownChunk(text='One.\n\nTw', joined=False))
    """

    def __init__(self) -> None:
        self.finished: list[MarkdownChunk] = []
        self._lines: list[str] = []
        self._rest = ""
        self._length = 0
        self._fence = ""
        self._info = ""
        self._prefix = ""
        self._joined = False

    @property
    def last(self) -> MarkdownChunk:
        """The chunk that still grows; its text may be empty."""
        return MarkdownChunk(self._prefix + "".join(self._lines) + self._rest, self._joined)

    def feed(self, piece: str) -> None:
        """Add text at the end."""
        *whole, self._rest = (self._rest + piece).split("\n")
        for line in whole:
            self._add_line(line)
        while len(self._rest) > MOST_CHARACTERS:
            self._cut_long_line()

    def _add_line(self, line: str) -> None:
        while len(line) > MOST_CHARACTERS:
            cut = _find_cut(line)
            self._append(line[:cut])
            self._finish(joined=True)
            line = line[cut:]
        line += "\n"
        if not self._fence and self._follows_gap() and line.strip() and not line[0].isspace():
            self._finish(joined=False)
        opened = self._fence
        self._note_fence(line)
        self._append(line)
        if opened and not self._fence:
            self._finish(joined=False)
        elif len(self._lines) >= MOST_LINES or self._length > MOST_CHARACTERS:
            self._finish(joined=True)

    def _append(self, text: str) -> None:
        self._lines.append(text)
        self._length += len(text)

    def _follows_gap(self) -> bool:
        return bool(self._lines) and not self._lines[-1].strip()

    def _note_fence(self, line: str) -> None:
        match = _FENCE.match(line)
        if match is None:
            return
        marks, info = match["marks"], match["info"].strip()
        if not self._fence:
            if marks[0] == "~" or "`" not in info:
                self._fence, self._info = marks, info
        elif marks.startswith(self._fence) and not info:
            self._fence = ""

    def _cut_long_line(self) -> None:
        cut = _find_cut(self._rest)
        self._append(self._rest[:cut])
        self._rest = self._rest[cut:]
        self._finish(joined=True)

    def _finish(self, *, joined: bool) -> None:
        text = self._prefix + "".join(self._lines)
        if self._fence:
            text += f"{'' if text.endswith(chr(10)) else chr(10)}{self._fence}\n"
        self.finished.append(MarkdownChunk(text, self._joined))
        self._prefix = f"{self._fence}{self._info}\n" if self._fence else ""
        self._lines, self._length, self._joined = [], 0, joined


def _find_cut(text: str) -> int:
    space = text.rfind(" ", MOST_CHARACTERS // 2, MOST_CHARACTERS)
    return space + 1 if space > 0 else MOST_CHARACTERS
