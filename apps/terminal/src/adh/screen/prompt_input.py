"""The input: the text that the person writes, with its history.

It must never send on its own, and must never keep a character of a paste that the person cannot see.
"""

from __future__ import annotations

import re
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

MOST_PASTED = 200_000
"""The characters of a paste that are taken."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean_paste(text: str) -> str:
    r"""Return pasted text without control characters, and with invisible characters as escapes.

    >>> clean_paste("a\r\nb\x1b[2J\u200bc")
    'a\nb[2J\\u200bc'
    """
    from holdfast.middleware import escape_invisible  # noqa: PLC0415  # REASON: the prompt comes first

    lines = text[:MOST_PASTED].replace("\r\n", "\n").replace("\r", "\n")
    return escape_invisible(_CONTROL.sub("", lines))


class PromptInput(TextArea):
    """A text of one to ten lines. Enter sends it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j", "new_line", "New line", show=False),
        Binding("ctrl+u", "undo_turn_or_delete", "Undo the turn", show=False),
        Binding("pageup", "scroll_chat(-1)", "Scroll the chat up", show=False),
        Binding("pagedown", "scroll_chat(1)", "Scroll the chat down", show=False),
    ]
    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 3; max-height: 12; border: round $panel; background: $background; }
    PromptInput:focus { border: round $primary; }
    """

    class Sent(Message):
        """The person sends this text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class UndoRequested(Message):
        """The person wants to undo the newest turn."""

    class ChatScrolled(Message):
        """The person scrolls the chat: -1 up, 1 down, by a page."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  # REASON: Textual's name
        super().__init__(id=id, soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
        self._history: list[str] = []
        self._at = 0
        self._browsing = False
        self._title = ""

    def show_title(self, text: str) -> None:
        """Show this text in the upper border."""
        if text != self._title:
            self._title = text
            self.border_title = Text(text)

    def remember(self, texts: list[str]) -> None:
        """Take earlier messages into the history, oldest first."""
        self._history = [*texts, *self._history]
        self._at = len(self._history)

    def put(self, text: str) -> None:
        """Show this text, with the cursor at its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        # Textual calls the handler of the base class after this one, unless it is prevented.
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._send()
            return
        if event.key in ("up", "down") and self._browse(-1 if event.key == "up" else 1):
            event.stop()
            event.prevent_default()
            return
        if event.is_printable or event.key in ("backspace", "delete"):
            self._browsing = False

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        result = self._replace_via_keyboard(clean_paste(event.text), *self.selection)
        if result is not None:
            self.move_cursor(result.end_location)

    def _send(self) -> None:
        text = self.text.strip()
        if not text:
            return
        self._history.append(text)
        self._at = len(self._history)
        self._browsing = False
        self.load_text("")
        self.post_message(self.Sent(text))

    def _browse(self, step: int) -> bool:
        """Show an earlier or a later message; returns whether the key means that here."""
        if not self._history or not (self._browsing or not self.text):
            return False
        row = self.cursor_location[0]
        if (step < 0 and row > 0) or (step > 0 and row < self.document.line_count - 1):
            return False
        at = min(max(self._at + step, 0), len(self._history))
        if at == len(self._history):
            self._browsing = False
            self.load_text("")
        else:
            self._browsing = True
            self.put(self._history[at])
        self._at = at
        return True

    def action_new_line(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_undo_turn_or_delete(self) -> None:
        """Ask to undo the newest turn; in a line with text, delete to its start."""
        if self.text:
            self.action_delete_to_start_of_line()
        else:
            self.post_message(self.UndoRequested())

    def action_scroll_chat(self, step: int) -> None:
        """Scroll the chat by a page."""
        self.post_message(self.ChatScrolled(step))
