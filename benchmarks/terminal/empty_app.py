"""An application of Textual with one input and nothing else: what a start costs at least."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Input

READY = "Nothing else is here"


class EmptyApp(App[None]):
    """One input."""

    def compose(self) -> ComposeResult:
        """Yield the input."""
        yield Input(placeholder=READY)


if __name__ == "__main__":
    EmptyApp().run()
