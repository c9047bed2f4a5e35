"""Finds the block that a line of the chat belongs to, for any number of blocks.

It is pure, and must never render a block: it knows heights alone.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple


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
