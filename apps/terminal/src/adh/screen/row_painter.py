"""Paints texts into rows of the terminal: the one place where a text becomes output of the terminal.

It must never send a character that a terminal obeys, from any text. HTML, images and markup of a model are shown
as they are written, and a link shows its address: none may show one address and open another.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from textual.strip import Strip

from adh.screen.colours import colours_of, make_markdown_theme
from holdfast.middleware import escape_invisible

_HIGHLIGHTED = 20_000


class _Heading(markdown.Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heading = self.text.copy()
        heading.justify = "left"
        heading.stylize("bold underline" if self.tag == "h1" else "bold")
        yield heading


class _CodeBlock(markdown.CodeBlock):
    @classmethod
    def create(cls, markdown: markdown.Markdown, token: Token) -> _CodeBlock:
        language = (token.info or "").partition(" ")[0]
        return cls(language or "text", markdown.code_theme)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        inner = options.update(width=max(1, options.max_width - 2))
        known = self.lexer_name != "text" and len(code) < _HIGHLIGHTED
        body = (
            Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True)
            if known
            else Text(code, style="markdown.code_block", overflow="fold")
        )
        bar = Segment("│ ", Style(dim=True))
        for line in console.render_lines(body, inner, pad=False):
            yield bar
            yield from (Segment(text, _without_background(style)) for text, style, _ in line)
            yield Segment.line()


def _without_background(style: Style | None) -> Style | None:
    if style is None:
        return None
    return Style(color=style.color, bold=style.bold, italic=style.italic)


class ModelMarkdown(markdown.Markdown):
    """Markdown whose HTML and images are shown as text.

    Args:
        text: the Markdown, with its invisible characters escaped.
        code_theme: the Pygments style of code.
    """

    elements: ClassVar[dict[str, type[markdown.MarkdownElement]]] = {
        **markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, text: str, code_theme: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.markup = text
        self.parsed = _make_parser().parse(text)


@cache
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 30})
    return parser.enable(["strikethrough", "table"]).disable(["image", "entity", "reference"])


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
        self, content: RenderableType, first: Text | str = "", rest: str = "", style: str = ""
    ) -> list[Strip]:
        """Return the rows of this.

        Args:
            content: the text, or another renderable of Rich.
            first: stands before the first row.
            rest: stands before each other row; as wide as `first`.
            style: the style of all rows.
        """
        start = first if isinstance(first, Text) else Text(first)
        width = max(1, self.width - start.cell_len)
        options = self._console.options.update(width=width, overflow="fold")
        lines = self._console.render_lines(
            content, options, style=self._console.get_style(style), pad=False
        )
        rows = []
        # A text without spans renders without its own style.
        head = Segment.apply_style(
            start.render(self._console), self._console.get_style(start.style)
        )
        before = list(head)
        for number, line in enumerate(lines):
            row = make_strip([*(before if number == 0 else [Segment(rest)]), *line])
            # A row of the whole width is shown as it is, so Textual's strip of it is made once.
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
