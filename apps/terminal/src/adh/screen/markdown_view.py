"""Markdown of a model for a terminal: everything that the model wrote is seen.

HTML, images and markup are shown as they are written, and a link shows its address. This module must never make
a link that shows one address and opens another.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

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
