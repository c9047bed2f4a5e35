"""Paints the blocks of a conversation into rows.

A block that is folded shows its head alone. This module must never read more of a growing answer than what is new.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from rich.text import Text
from textual.strip import Strip

from adh.screen.markdown_chunks import MarkdownChunk, MarkdownChunks
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
        """Return the rows of the text, after reading what is new of it."""
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
