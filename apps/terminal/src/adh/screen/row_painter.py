"""Paints texts into rows of the terminal: the one place where a text becomes what a terminal is sent.

It must never send a character that a terminal obeys, whatever the text was.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from adh.screen.colours import colours_of, make_markdown_theme
from adh.screen.markdown_view import ModelMarkdown
from holdfast.middleware import escape_invisible


class RowPainter:
    """Paints into rows of this width.

    Args:
        width: in cells.
        dark: whether the theme is dark.
        agent: the name of the agent whose answers name none.
    """

    def __init__(self, width: int, *, dark: bool, agent: str = "agent") -> None:
        self.agent = agent
        self.width = max(width, 8)
        self.dark = dark
        self.colours = colours_of(dark=dark)
        self._console = Console(
            file=io.StringIO(),
            width=self.width,
            theme=make_markdown_theme(self.colours),
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
            no_color=False,
            highlight=False,
            _environ={},
        )

    def paint(
        self, what: RenderableType, first: Text | str = "", rest: str = "", style: str = ""
    ) -> list[Strip]:
        """Return the rows of this.

        Args:
            what: the text, or another renderable of Rich.
            first: stands before the first row.
            rest: stands before each other row; as wide as `first`.
            style: the style of all rows.
        """
        start = first if isinstance(first, Text) else Text(first)
        width = max(1, self.width - start.cell_len)
        options = self._console.options.update(width=width, overflow="fold")
        lines = self._console.render_lines(
            what, options, style=self._console.get_style(style), pad=False
        )
        rows = []
        # A text without spans renders without its own style.
        head = Segment.apply_style(
            start.render(self._console), self._console.get_style(start.style)
        )
        before = list(head)
        for number, line in enumerate(lines):
            row = make_strip([*(before if number == 0 else [Segment(rest)]), *line])
            # A row of the whole width is shown as it is, so what Textual makes of it is made once.
            rows.append(row.extend_cell_length(self.width))
        return rows

    def paint_markdown(self, text: str, indent: str = "", style: str = "") -> list[Strip]:
        """Return the rows of a Markdown text of a model."""
        markdown = ModelMarkdown(escape_invisible(text), self.colours.code_theme)
        rows = self.paint(markdown, indent, indent, style)
        filled = [number for number, row in enumerate(rows) if row.text.strip()]
        return rows[filled[0] : filled[-1] + 1] if filled else []

    def paint_text(
        self, text: str, first: Text | str = "", rest: str = "", style: str = ""
    ) -> list[Strip]:
        """Return the rows of a plain text; its markup is shown as it is written."""
        return self.paint(Text(escape_invisible(text)), first, rest, style)


def make_strip(segments: Iterable[Segment]) -> Strip:
    r"""Return a row of these segments, with the characters that a terminal obeys as escapes.

    >>> make_strip([Segment("a\x1b[2Jb")]).text
    'a\\x1b[2Jb'
    """
    return Strip(
        Segment(_escape_all(text), style)
        for text, style, control in segments
        if not control and text
    )


def _escape_all(text: str) -> str:
    if text.isprintable():
        return text
    return escape_invisible(text.replace("\n", " ").replace("\t", "    "))


def make_link(text: str, action: str, block: str, style: str) -> Text:
    """Return a text that a click acts on: `action` of `block`."""
    return Text(text, style=Style.parse(style) + Style(meta={action: block}))
