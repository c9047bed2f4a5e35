"""Keeps signs in their cells: a terminal may draw one as wide as another program does not expect.

A sign such as U+26A0 with the selector U+FE0F takes one cell in some terminals and two in others, and everything
right of it moves. Without the selector it takes one cell everywhere.
"""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SELECTED = re.compile("(.?)\ufe0f")


def fix_width(text: str) -> str:
    r"""Return a text of the same width without emoji selectors.

    >>> fix_width("\u26a0\ufe0f medium") == "\u26a0  medium"
    True
    """
    if "\ufe0f" not in text:
        return text
    return _SELECTED.sub(lambda found: found[1] + " " * _count_lost(found), text)


def _count_lost(found: re.Match[str]) -> int:
    return max(0, cell_len(found[0]) - cell_len(found[1]))


class EmojiWidth(LineFilter):
    """Paints every line without emoji selectors."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line, each as wide as before."""
        del background
        return [Segment(fix_width(text), style, control) for text, style, control in segments]
