"""Renders Markdown in a terminal while it arrives.

A finished block (a paragraph, a list, a table, a block of code) is printed once, rendered. The end
of the text, whose form is not known yet, is shown as it was written, and is replaced by its
rendering. This module must not interpret anything but Markdown: no markup of Rich, no control
characters, no hidden addresses of links.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class BlockSplitter:
    r"""Splits a text that arrives in pieces into blocks of Markdown.

    A block ends at an empty line that is not inside a block of code.

    >>> splitter = BlockSplitter()
    >>> splitter.feed("# Title\n\nSome"), splitter.pending
    (['# Title\n\n'], 'Some')
    """

    def __init__(self) -> None:
        self._block: list[str] = []
        self._line = ""
        self._fence = ""

    @property
    def pending(self) -> str:
        """The text after the last finished block."""
        return "".join(self._block) + self._line

    def feed(self, text: str) -> list[str]:
        """Take the next piece of the text, and return the blocks that it finishes."""
        blocks: list[str] = []
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._block.append(line + "\n")
            self._follow_fence(line)
            if not self._fence and not line.strip():
                blocks.append("".join(self._block))
                self._block = []
        return blocks

    def flush(self) -> str:
        """Return the text after the last finished block, and begin again."""
        rest = self.pending
        self._block, self._line, self._fence = [], "", ""
        return rest

    def _follow_fence(self, line: str) -> None:
        fence = _FENCE.match(line)
        if not self._fence:
            self._fence = fence[1] if fence else ""
        elif fence and fence[1].startswith(self._fence) and not line[fence.end() :].strip():
            self._fence = ""


class MarkdownStream:
    """Prints a reply as Markdown.

    Args:
        out: a terminal.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._splitter = BlockSplitter()
        self._console: Console | None = None
        self._is_empty = True
        self._live: Live | None = None

    def write(self, text: str) -> None:
        """Print a piece of the text. It must not hold control characters."""
        for block in self._splitter.feed(text):
            self._clear_pending()
            self._render(block)
        self._show_pending()

    def finish(self) -> None:
        """Print the rest of the text."""
        self._clear_pending()
        self._render(self._splitter.flush())
        self._is_empty = True

    def _render(self, block: str) -> None:
        from rich.markdown import Markdown

        if not block.strip():
            return
        console = self._open_console()
        if not self._is_empty:
            console.print()
        console.print(Markdown(block.strip("\n"), hyperlinks=False))
        self._is_empty = False

    def _show_pending(self) -> None:
        """Show the last lines of the unfinished block, at most half a screen of them."""
        from rich.live import Live
        from rich.text import Text

        console = self._open_console()
        if self._live is None:
            self._live = Live(console=console, transient=True, auto_refresh=False)
            self._live.start()
        room = max(3, console.height // 2)
        tail = self._splitter.pending[-room * console.width :]
        lines = Text(tail).wrap(console, console.width)[-room:]
        self._live.update(Text("\n").join(lines), refresh=True)

    def _clear_pending(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _open_console(self) -> Console:
        from rich.console import Console

        if self._console is None:
            self._console = Console(file=self._out, markup=False, emoji=False, highlight=False)
        return self._console
