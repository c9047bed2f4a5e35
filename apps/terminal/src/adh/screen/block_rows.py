"""Paints the blocks of a conversation into rows.

A block that is folded shows its head alone. A growing answer is cut into chunks of Markdown: only the last one is
rendered again when text comes, and it is bounded, so a long answer costs no more for each piece than a short one.
This module must never read more of a growing answer than its new part, and must never change the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from rich.text import Text
from textual.strip import Strip

from adh.screen.row_painter import RowPainter, make_link
from adh.transcript.blocks import (
    AnswerBlock,
    Block,
    NoteBlock,
    OutputLine,
    PersonBlock,
    ToolBlock,
    ToolState,
)
from holdfast.middleware import escape_invisible

MOST_ROWS = 1_000
"""The rows of one part of a tool block, such as its result."""

PERSON_SIGN = "\u276f "
_LIVE_ROWS = 3
_INDENT = "  "
_BLANK = Strip([])


class BlockView(Struct, frozen=True):
    """How a block is shown: whether it is folded, and whether it is the one that keys act on."""

    folded: bool
    selected: bool = False


def is_folded_at_first(block: Block) -> bool:
    """Whether this block is folded until the person unfolds it."""
    return isinstance(block, ToolBlock)


class AnswerRows:
    """The rows of an answer that grows: only the last part is painted again.

    Args:
        painter: paints.
    """

    def __init__(self, painter: RowPainter) -> None:
        self._painter = painter
        self._version = 0
        self._style = ""
        self._taken = 0
        self._painted = 0
        self._finished_rows = 0
        self._chunks = MarkdownChunks()
        self._rows: list[Strip] = []

    def update(self, block: AnswerBlock) -> list[Strip]:
        """Return the rows of the text, after reading its new part."""
        style = self._painter.colours.faint if block.state == "unfinished" or block.undone else ""
        if block.version != self._version or style != self._style:
            self._begin_anew(block.version, style)
        for piece in block.pieces[self._taken :]:
            self._chunks.feed(piece)
        self._taken = len(block.pieces)
        first = self._finished_rows
        before = self._rows[first:]
        del self._rows[first:]
        for chunk in self._chunks.finished[self._painted :]:
            self._paint(chunk)
        self._painted = len(self._chunks.finished)
        self._finished_rows = len(self._rows)
        if self._chunks.last.text.strip():
            self._paint(self._chunks.last)
        # A row that is equal stays the same object, for which Textual has made everything already.
        for number, old in enumerate(before[: len(self._rows) - first], first):
            if self._rows[number] == old:
                self._rows[number] = old
        return self._rows

    def _begin_anew(self, version: int, style: str) -> None:
        self._version = version
        self._style = style
        self._taken = 0
        self._painted = 0
        self._finished_rows = 0
        self._chunks = MarkdownChunks()
        self._rows = []

    def _paint(self, chunk: MarkdownChunk) -> None:
        rows = self._painter.paint_markdown(chunk.text, _INDENT, self._style)
        if rows and self._rows and not chunk.joined:
            self._rows.append(_BLANK)
        self._rows.extend(rows)


def paint_block(
    block: Block, view: BlockView, painter: RowPainter, answer: AnswerRows | None
) -> list[Strip]:
    """Return the rows of a block, with an empty one at its end.

    Args:
        block: the block.
        view: how it is shown.
        painter: paints.
        answer: the rows of its text so far, for an answer; None for any other block.
    """
    if isinstance(block, PersonBlock):
        rows = _paint_person(block, view, painter)
    elif isinstance(block, AnswerBlock):
        rows = _paint_answer(block, view, painter, answer or AnswerRows(painter))
    elif isinstance(block, ToolBlock):
        rows = _paint_tool(block, view, painter)
    else:
        rows = _paint_note(block, painter)
    return [*rows, _BLANK]


def estimate_rows(block: Block, width: int, *, folded: bool) -> int:
    """Return about how many rows a block has, without painting it."""
    if isinstance(block, ToolBlock) or folded:
        return 2
    text = block.text
    return len(text) // max(1, width - 2) + text.count("\n") + 3


def _paint_person(block: PersonBlock, view: BlockView, painter: RowPainter) -> list[Strip]:
    colours = painter.colours
    sign = Text(PERSON_SIGN, style=f"bold {colours.accent}{' reverse' if view.selected else ''}")
    style = f"{colours.faint} strike" if block.undone else colours.text
    rows = painter.paint_text(block.text, sign, _INDENT, style)
    words = "undone" if block.undone else "waits for the turn before it" if block.queued else ""
    if words:
        rows += painter.paint_text(f"({words})", _INDENT, _INDENT, colours.faint)
    return rows


def _fold_sign(view: BlockView, block: Block, painter: RowPainter) -> Text:
    style = f"bold {painter.colours.accent}" + (" reverse" if view.selected else "")
    return make_link("▸ " if view.folded else "▾ ", "fold", block.id, style)


def _paint_answer(
    block: AnswerBlock, view: BlockView, painter: RowPainter, answer: AnswerRows
) -> list[Strip]:
    colours = painter.colours
    states = {"streaming": " · writing", "unfinished": " · not finished", "done": ""}
    head = Text(escape_invisible(block.agent or painter.agent), style=f"bold {colours.accent}")
    head.append(states[block.state], style=colours.warning)
    if block.undone:
        head.append(" · undone", style=colours.faint)
    if view.folded:
        first = escape_invisible(_first_line(block))
        head.append(f"  {first}", style=colours.faint)
    head.append("  ")
    head.append_text(make_link("[copy]", "copy", block.id, f"not bold {colours.faint}"))
    rows = painter.paint(head, _fold_sign(view, block, painter), _INDENT)
    if view.folded:
        return rows
    rows = rows + answer.update(block)
    if block.state == "unfinished":
        rows += painter.paint_text("⚠ not finished", _INDENT, _INDENT, colours.warning)
    return rows


def _first_line(block: AnswerBlock) -> str:
    start = "".join(block.pieces[:50])[:500].lstrip()
    return start.partition("\n")[0][:60]


def _paint_tool(block: ToolBlock, view: BlockView, painter: RowPainter) -> list[Strip]:
    rows = _paint_tool_head(block, view, painter)
    if not view.folded:
        return rows + _paint_tool_body(block, painter)
    if block.state is ToolState.EXECUTING:
        newest = list(block.output)[-_LIVE_ROWS:]
        rows += _paint_output(newest, painter)
    elif block.error and block.state in (ToolState.FAILED, ToolState.BLOCKED):
        line = block.error.strip().partition("\n")[0]
        rows += painter.paint_text(line, "    ", "    ", painter.colours.bad)
    return rows


def _paint_tool_head(block: ToolBlock, view: BlockView, painter: RowPainter) -> list[Strip]:
    colours = painter.colours
    by_state = {
        ToolState.SUCCESS: colours.good,
        ToolState.FAILED: colours.bad,
        ToolState.BLOCKED: colours.bad,
        ToolState.CONFIRMING: colours.warning,
        ToolState.IN_DOUBT: colours.warning,
    }
    call, separator, words = escape_invisible(block.header).rpartition(" · ")
    name_end = call.find(block.name) + len(block.name)
    head = Text(call[:name_end], style=f"bold {colours.text}")
    head.append(call[name_end:], style=f"not bold {colours.faint}")
    head.append(separator, style=f"not bold {colours.faint}")
    head.append(words, style=f"not bold {by_state.get(block.state, colours.accent)}")
    if block.undone:
        head.append(" · undone", style=f"not bold {colours.faint}")
    return painter.paint(head, _fold_sign(view, block, painter), "    ")


def _paint_tool_body(block: ToolBlock, painter: RowPainter) -> list[Strip]:
    colours = painter.colours
    rows: list[Strip] = []
    if block.rule or block.level:
        said = f"{block.level}, risk {block.risk or 'unknown'}: {block.rule or 'no rule'}"
        rows += _paint_part("Rule", said, painter, colours.faint)
    rows += _paint_part("Parameters", block.arguments, painter, colours.faint)
    if block.output or block.dropped_lines:
        rows += painter.paint_text("Output", "  │ ", "  │ ", f"bold {colours.faint}")
        if block.dropped_lines:
            dropped = f"… {block.dropped_lines:,} earlier lines"
            rows += painter.paint_text(dropped, "  │ ", "  │ ", colours.faint)
        rows += _paint_output(block.output, painter)
    rows += _paint_part("Result", block.result, painter, colours.text)
    return rows + _paint_part("Error", block.error, painter, colours.bad)


def _paint_part(label: str, text: str, painter: RowPainter, style: str) -> list[Strip]:
    if not text:
        return []
    lines = text.split("\n", MOST_ROWS)
    rest = lines[MOST_ROWS:]
    shown = "\n".join(lines[:MOST_ROWS])[: MOST_ROWS * 200]
    rows = painter.paint_text(label, "  │ ", "  │ ", f"bold {painter.colours.faint}")
    rows += painter.paint_text(shown, "  │ ", "  │ ", style)
    if rest or len(shown) == MOST_ROWS * 200:
        rows += painter.paint_text("… the rest is not shown", "  │ ", "  │ ", "italic")
    return rows


def _paint_output(lines: Iterable[OutputLine], painter: RowPainter) -> list[Strip]:
    colours = painter.colours
    rows: list[Strip] = []
    for line in lines:
        is_error = line.stream == "stderr"
        before = "  ! " if is_error else "  │ "
        style = colours.warning if is_error else colours.faint
        rows += painter.paint_text(line.text, Text(before, style=style), before, style)
    return rows


def _paint_note(block: NoteBlock, painter: RowPainter) -> list[Strip]:
    colours = painter.colours
    quiet = block.kind is None or block.kind in ("done", "cancelled", "waiting")
    style = colours.faint if quiet or block.undone else colours.bad
    bar = Text("▏ ", style=style)
    return painter.paint_text(block.text, bar, "▏ ", style if quiet else colours.text)


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
        self._record_fence(line)
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

    def _record_fence(self, line: str) -> None:
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
