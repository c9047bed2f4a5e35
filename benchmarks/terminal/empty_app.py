"""An application of Textual with one input and nothing else: what a start costs at least."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Input

PLACEHOLDER = "Nothing else is here"
READY = PLACEHOLDER[1:]
"""What is painted in one piece: the cursor stands on the first character, with a style of its own."""


class EmptyApp(App[None]):
    """One input."""

    def compose(self) -> ComposeResult:
        """Yield the input."""
        yield Input(placeholder=PLACEHOLDER)


if __name__ == "__main__":
    EmptyApp().run()
