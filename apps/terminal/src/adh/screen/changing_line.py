"""Lines that are set often and change seldom: setting the same text again paints nothing.

While an answer is streamed, everything around it is set 25 times a second. This module must never lay the
screen out again for a text that is already there.
"""

from __future__ import annotations

from rich.text import Text
from textual.containers import Container
from textual.widgets import Static


class ChangingLine(Static):
    """Lines of plain text."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._shown = ""

    def show_text(self, text: str) -> None:
        """Show this text."""
        if text != self._shown:
            self._shown = text
            # The text may have any characters, and none of them is markup.
            self.update(Text(text))


class TitledFrame(Container):
    """A container with a title and a subtitle of plain text in its border."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._titles = ("", "")

    def show_titles(self, title: str, subtitle: str) -> None:
        """Show these titles."""
        if (title, subtitle) == self._titles:
            return
        self._titles = (title, subtitle)
        self.border_title = Text(title)
        self.border_subtitle = Text(subtitle)
