"""The chat: paints only the blocks that are seen, of any number.

The heights of blocks that were never seen are estimates; the visible part stays where it is when an
estimate turns out wrong. It must never paint on each piece of a streamed answer: `MOST_PAINTS` a second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from adh.screen.block_rows import (
    AnswerRows,
    BlockView,
    estimate_rows,
    is_folded_at_first,
    paint_block,
)
from adh.screen.row_painter import RowPainter
from adh.transcript.blocks import AnswerBlock, Block, ToolBlock, ToolState


class LinePlace(NamedTuple):
    """A line of the chat: the number of its block, and of the line in it."""

    block: int
    row: int


class LineIndex:
    """The heights of blocks, one below the other.

    A change costs as much as there are blocks below it, so the growth of the last block costs nothing.

    >>> index = LineIndex()
    >>> index.replace([2, 3])
    >>> index.find(4), index.find(5), index.total
    (LinePlace(block=1, row=2), None, 5)
    """

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._starts: list[int] = [0]
        self._valid = 0  # the starts up to here, and this one, are right

    def __len__(self) -> int:
        return len(self._heights)

    def replace(self, heights: list[int]) -> None:
        """Take these heights in place of all that were there."""
        self._heights = list(heights)
        self._starts = [0] * (len(heights) + 1)
        self._valid = 0

    def append(self, height: int) -> None:
        """Add a block below the others."""
        self._heights.append(height)
        self._starts.append(0)

    def height(self, block: int) -> int:
        """Return the height of this block."""
        return self._heights[block]

    def change(self, block: int, height: int) -> None:
        """Give this block another height."""
        if self._heights[block] != height:
            self._heights[block] = height
            self._valid = min(self._valid, block)

    def start(self, block: int) -> int:
        """Return the first line of this block, from 0."""
        self._refresh()
        return self._starts[block]

    @property
    def total(self) -> int:
        """How many lines all blocks have."""
        self._refresh()
        return self._starts[-1]

    def find(self, line: int) -> LinePlace | None:
        """Return the place of this line; None if no block has it."""
        self._refresh()
        if not 0 <= line < self._starts[-1]:
            return None
        block = bisect_right(self._starts, line) - 1
        return LinePlace(block, line - self._starts[block])

    def _refresh(self) -> None:
        first = self._valid
        if first < len(self._heights):
            initial = self._starts[first]
            self._starts[first:] = accumulate(self._heights[first:], initial=initial)
            self._valid = len(self._heights)


MOST_PAINTED = 400
"""The blocks whose rows stay in memory."""


class BlockLog(ScrollView, can_focus=True):
    """The blocks of a conversation, one below the other.

    It follows its end until the person scrolls up, and again once the person is back at the end.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "select(-1)", "Earlier block", show=False),
        Binding("down", "select(1)", "Later block", show=False),
        Binding("enter,space", "fold_selected", "Fold", show=False),
        Binding("c", "copy_selected", "Copy", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go_home", "Start", show=False),
        Binding("end", "go_end", "End", show=False),
    ]
    DEFAULT_CSS = """
    BlockLog { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }
    """

    class CopyRequested(Message):
        """The person wants the text of this block."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, follows: bool = True, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.auto_follow = follows
        self._agent = "agent"
        self._following = True
        self._blocks: list[Block] = []
        self._numbers: dict[str, int] = {}
        self._lines = LineIndex()
        self._painted: OrderedDict[str, list[Strip]] = OrderedDict()
        self._answers: dict[str, AnswerRows] = {}
        self._measured: set[str] = set()
        self._folds: dict[str, bool] = {}
        self._selected = ""
        self._painter: RowPainter | None = None
        self._placing = False
        self._laid_out_for = 0
        self._row_look: tuple[int, Style] | None = None

    @property
    def painted_count(self) -> int:
        """How many blocks have rows in memory."""
        return len(self._painted)

    def show_blocks(self, blocks: Sequence[Block], changed: frozenset[str]) -> None:
        """Show these blocks; those in `changed` are new or different since the last call."""
        count = len(self._blocks)
        for name in changed:
            self._forget_rows(name)
        # The items of a list are compared by identity first, so this is fast.
        if list(blocks[:count]) == self._blocks:
            for block in blocks[count:]:
                self._append(block)
        else:
            self._arrange(blocks)
        self._place()

    def is_executing(self, name: str) -> bool:
        """Return whether this block is a tool that runs."""
        number = self._numbers.get(name)
        block = None if number is None else self._blocks[number]
        return isinstance(block, ToolBlock) and block.state is ToolState.EXECUTING

    def _arrange(self, blocks: Sequence[Block]) -> None:
        """Take other blocks, and keep the measures of those that stay."""
        heights = {
            block.id: self._lines.height(number) for number, block in enumerate(self._blocks)
        }
        self._blocks = list(blocks)
        self._numbers = {block.id: number for number, block in enumerate(blocks)}
        for gone in heights.keys() - self._numbers.keys():
            self._forget_rows(gone)
            self._answers.pop(gone, None)
        self._lines.replace([heights.get(block.id) or self._estimate(block) for block in blocks])

    def _forget_all_rows(self) -> None:
        self._laid_out_for = self._width
        self._painted.clear()
        self._answers.clear()
        self._measured.clear()
        self._lines.replace([self._estimate(block) for block in self._blocks])

    def _append(self, block: Block) -> None:
        self._numbers[block.id] = len(self._blocks)
        self._blocks.append(block)
        self._lines.append(self._estimate(block))

    def _forget_rows(self, name: str) -> None:
        self._painted.pop(name, None)
        self._measured.discard(name)

    def _estimate(self, block: Block) -> int:
        return estimate_rows(block, self._width, folded=self._is_folded(block))

    @property
    def _width(self) -> int:
        return max(8, self.scrollable_content_region.width)

    def _is_folded(self, block: Block) -> bool:
        return self._folds.get(block.id, is_folded_at_first(block))

    def name_agent(self, name: str) -> None:
        """Head the answers of the conversation's own agent with this name."""
        if name and name != self._agent:
            self._agent = name
            self.repaint_all()

    def repaint_all(self) -> None:
        """Paint everything again, as after a change of the theme or the width."""
        self._painter = None
        self._forget_all_rows()
        self._place()

    def _rows_of(self, number: int) -> list[Strip]:
        block = self._blocks[number]
        rows = self._painted.get(block.id)
        if rows is not None:
            self._painted.move_to_end(block.id)
            return rows
        painter = self._painter
        if painter is None:
            painter = self._painter = RowPainter(
                self._width, dark=self.app.current_theme.dark, agent=self._agent
            )
        answer = None
        if isinstance(block, AnswerBlock):
            answer = self._answers.setdefault(block.id, AnswerRows(painter))
        view = BlockView(self._is_folded(block), block.id == self._selected)
        rows = paint_block(block, view, painter, answer)
        self._painted[block.id] = rows
        self._measured.add(block.id)
        self._lines.change(number, len(rows))
        while len(self._painted) > MOST_PAINTED:
            oldest, _ = self._painted.popitem(last=False)
            self._answers.pop(oldest, None)
        return rows

    def _place(self) -> None:
        """Measure the visible blocks, keep their place, and paint."""
        if self._placing or not self.size.height:
            return
        self._placing = True
        try:
            if self._following and self.auto_follow:
                self._place_at_end()
            else:
                self._place_where_it_is()
        finally:
            self._placing = False
        self.refresh()

    def _place_at_end(self) -> None:
        height = self.scrollable_content_region.height
        number, seen = len(self._blocks), 0
        while number and seen < height:
            number -= 1
            seen += len(self._rows_of(number))
        self._move_to(max(0, self._lines.total - height))

    def _place_where_it_is(self) -> None:
        top = round(self.scroll_y)
        anchor = self._find_anchor(top)
        before = self._lines.start(anchor) if anchor is not None else 0
        self._measure_from(top)
        if anchor is not None:
            moved = self._lines.start(anchor) - before
            if moved:
                top += moved
                self._measure_from(top)
        self._move_to(top)

    def _find_anchor(self, top: int) -> int | None:
        """Return the first block in sight whose height is known."""
        place = self._lines.find(top)
        if place is None:
            return None
        bottom = top + self.scrollable_content_region.height
        number = place.block
        while number < len(self._blocks) and self._lines.start(number) < bottom:
            if self._blocks[number].id in self._measured:
                return number
            number += 1
        return None

    def _measure_from(self, top: int) -> None:
        place = self._lines.find(max(0, top))
        number = place.block if place else 0
        bottom = top + self.scrollable_content_region.height
        while number < len(self._blocks) and self._lines.start(number) < bottom:
            self._rows_of(number)
            number += 1

    def _move_to(self, top: int) -> None:
        size = Size(self._width, self._lines.total)
        if size != self.virtual_size:
            # The scrollbar is always there, so the screen need not be laid out again.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        if round(self.scroll_y) != top:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Measure the blocks that come into sight."""
        super().watch_scroll_y(old_value, new_value)
        if self._placing or round(old_value) == round(new_value):
            return
        height = self.scrollable_content_region.height
        self._following = round(new_value) >= self._lines.total - height
        self._place()

    def on_resize(self) -> None:
        """Paint everything again when the width is another one."""
        if self._laid_out_for != self._width:
            self.repaint_all()
        else:
            self._place()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible rows."""
        # Each is computed from many parts, and is the same for all rows.
        self._row_look = (self._width, self.rich_style)
        try:
            return super().render_lines(crop)
        finally:
            self._row_look = None

    def render_line(self, y: int) -> Strip:
        """Return one visible row."""
        width, style = self._row_look or (self._width, self.rich_style)
        line = round(self.scroll_y) + y
        place = self._lines.find(line)
        if place is None:
            return Strip.blank(width, style)
        rows = self._rows_of(place.block)
        strip = rows[place.row] if place.row < len(rows) else Strip([])
        selection = self.text_selection
        span = selection.get_span(line) if selection is not None else None
        if span is not None:
            strip = self._mark_selected(strip, *span)
        return (
            strip.extend_cell_length(width).crop(0, width).apply_style(style).apply_offsets(0, line)
        )

    def _mark_selected(self, strip: Strip, start: int, end: int) -> Strip:
        length = strip.cell_length
        end = length if end == -1 else min(end, length)
        marked = self.screen.get_component_rich_style("screen--selection")
        middle = [
            Segment(text, (style + marked) if style else marked)
            for text, style, _ in strip.crop(start, end)
        ]
        return Strip.join([strip.crop(0, start), Strip(middle), strip.crop(end, length)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text."""
        last = self._lines.total - 1
        first = selection.start.y if selection.start else 0
        end = min(selection.end.y if selection.end else last, last)
        texts = []
        for line in range(first, end + 1):
            place = self._lines.find(line)
            rows = self._rows_of(place.block) if place else []
            texts.append(rows[place.row].text if place and place.row < len(rows) else "")
        if not texts:
            return None
        start_x = selection.start.x if selection.start else 0
        end_x = selection.end.x if selection.end else len(texts[-1])
        texts[-1] = texts[-1][:end_x]
        texts[0] = texts[0][start_x:]
        return "\n".join(text.rstrip() for text in texts), "\n"

    def on_click(self, event: events.Click) -> None:
        """Fold or copy the block that was clicked."""
        meta = event.style.meta
        if name := meta.get("fold"):
            event.stop()
            self._turn_fold(name)
        elif name := meta.get("copy"):
            event.stop()
            self.post_message(self.CopyRequested(self._blocks[self._numbers[name]]))

    def _turn_fold(self, name: str) -> None:
        number = self._numbers.get(name)
        if number is None:
            return
        block = self._blocks[number]
        self._folds[name] = not self._is_folded(block)
        self._painted.pop(name, None)
        self._keep_in_place(lambda: self._rows_of(number))

    def _keep_in_place(self, change: Callable[[], object]) -> None:
        following, self._following = self._following, False
        change()
        self._place()
        self._following = following and self._is_at_end()

    def _is_at_end(self) -> bool:
        return round(self.scroll_y) >= self._lines.total - self.scrollable_content_region.height

    def action_select(self, step: int) -> None:
        """Select the next or the earlier block, and show it."""
        if not self._blocks:
            return
        number = self._numbers.get(self._selected, len(self._blocks) if step < 0 else -1)
        number = min(max(number + step, 0), len(self._blocks) - 1)
        self._mark(self._blocks[number].id)
        self._rows_of(number)
        top, height = self._lines.start(number), self._lines.height(number)
        seen = Offset(0, round(self.scroll_y))
        page = self.scrollable_content_region.height
        if top < seen.y or height > page:
            self._go_to(top)
        elif top + height > seen.y + page:
            self._go_to(top + height - page)
        else:
            self._place()

    def _mark(self, name: str) -> None:
        for one in (self._selected, name):
            self._painted.pop(one, None)
        self._selected = name

    def _go_to(self, top: int) -> None:
        top = max(0, min(top, self._lines.total - self.scrollable_content_region.height))
        self._following = False
        self._move_to(top)
        self._place()
        self._following = self._is_at_end()

    def on_blur(self) -> None:
        """Select nothing while the keys go elsewhere."""
        self._mark("")
        self.refresh()

    def action_fold_selected(self) -> None:
        """Fold or unfold the selected block."""
        self._turn_fold(self._selected)

    def action_copy_selected(self) -> None:
        """Copy the text of the selected block."""
        number = self._numbers.get(self._selected)
        if number is not None:
            self.post_message(self.CopyRequested(self._blocks[number]))

    def action_page(self, step: int) -> None:
        """Scroll by a page."""
        self._go_to(round(self.scroll_y) + step * max(1, self.scrollable_content_region.height - 1))

    def action_go_home(self) -> None:
        """Scroll to the first block."""
        self._go_to(0)

    def action_go_end(self) -> None:
        """Scroll to the newest block, and follow."""
        self._following = True
        self._place()
