"""The two themes of the screen, dark and light, and the styles that a block is painted with.

Colour only repeats the information of a word, a sign or a place: without it, everything must still be understandable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from textual.theme import Theme

if TYPE_CHECKING:
    from rich.theme import Theme as RichTheme


class Colours(Struct, frozen=True):
    """The colours of painted blocks, as Rich writes them."""

    text: str
    faint: str
    accent: str
    good: str
    warning: str
    bad: str
    code: str
    code_theme: str


DARK = Colours(
    text="#d8dee6",
    faint="#8b96a5",
    accent="#7cb7ff",
    good="#7fd29a",
    warning="#e8bf6a",
    bad="#f28b82",
    code="#c9d6a8",
    code_theme="nord",
)
LIGHT = Colours(
    text="#20262e",
    faint="#5c6773",
    accent="#0b5cad",
    good="#1c7a3e",
    warning="#8a5a00",
    bad="#b3261e",
    code="#4d5d1a",
    code_theme="xcode",
)

DARK_THEME = Theme(
    name="adh-dark",
    primary="#7cb7ff",
    secondary="#9aa7b5",
    accent="#7cb7ff",
    warning="#e8bf6a",
    error="#f28b82",
    success="#7fd29a",
    foreground="#d8dee6",
    background="#14181d",
    surface="#191e24",
    panel="#2f3945",
    dark=True,
)
LIGHT_THEME = Theme(
    name="adh-light",
    primary="#0b5cad",
    secondary="#5c6773",
    accent="#0b5cad",
    warning="#8a5a00",
    error="#b3261e",
    success="#1c7a3e",
    foreground="#20262e",
    background="#fbfbfa",
    surface="#f2f2f0",
    panel="#d2d5d6",
    dark=False,
)


def colours_of(*, dark: bool) -> Colours:
    """Return the colours of the dark or of the light theme."""
    return DARK if dark else LIGHT


def make_markdown_theme(colours: Colours) -> RichTheme:
    """Return the styles of Markdown in these colours."""
    from rich.theme import Theme as RichTheme  # noqa: PLC0415  # REASON: after the prompt is there

    return RichTheme(
        {
            "markdown.paragraph": "none",
            "markdown.text": "none",
            "markdown.em": "italic",
            "markdown.strong": "bold",
            "markdown.code": colours.code,
            "markdown.code_block": colours.code,
            "markdown.block_quote": colours.faint,
            "markdown.list": "none",
            "markdown.item": "none",
            "markdown.item.bullet": f"bold {colours.accent}",
            "markdown.item.number": f"bold {colours.accent}",
            "markdown.hr": colours.faint,
            "markdown.link": f"underline {colours.accent}",
            "markdown.link_url": colours.faint,
            "markdown.table.border": colours.faint,
            "markdown.table.header": f"bold {colours.accent}",
            "markdown.s": "strike",
        }
    )
