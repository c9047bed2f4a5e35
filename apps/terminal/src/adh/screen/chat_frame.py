"""The frame of the chat: its layout, its themes, and the lines that show what waits and what just happened.

It must never know a conversation, an agent or a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.app import App, ComposeResult
from textual.containers import Container
from textual.filter import LineFilter

from adh.screen.changing_line import ChangingLine, TitledFrame
from adh.screen.colours import DARK_THEME, LIGHT_THEME
from adh.screen.emoji_width import EmojiWidth
from adh.screen.footer_text import describe_queue
from adh.screen.prompt_input import PromptInput

INITIALIZING = "⏳ Initializing agent..."
HINTS = "Enter sends · ^J new line · Esc stops · ^P commands · F1 keys"
NOTICE_SECONDS = 5.0
_MOST_NOTICES = 4
_EMOJI_WIDTH = EmojiWidth()


class ChatFrame(App[None]):
    """The parts of the screen, and what any part of the chat may show there.

    Args:
        clock: returns seconds that only grow; the same as that of the transcript.
        theme: "dark" or "light", until the settings are read.
    """

    TITLE = "Policy-Aware ADH Chat"
    CSS = """
    #chat { height: 1fr; border: round $panel; border-title-color: $primary; border-subtitle-color: $secondary;
        padding: 0 0 0 1; }
    #chat.busy { border: round $primary; }
    #chat.unsafe { border: heavy $error; border-title-color: $error; }
    #chat BlockLog { height: 1fr; }
    #inline-question { height: auto; max-height: 60%; }
    #notices, #queue { height: auto; padding: 0 2; display: none; }
    #notices.shown, #queue.shown { display: block; }
    #notices { color: $warning; }
    #queue { color: $secondary; }
    PromptInput { border-title-color: $secondary; border-subtitle-color: $secondary; }
    #footer { height: 1; padding: 0 2; color: $secondary; }
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, theme: str = "dark") -> None:
        super().__init__()
        self.clock = clock
        self._notices: list[str] = []
        for one in (DARK_THEME, LIGHT_THEME):
            self.register_theme(one)
        self.use_theme(theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what changes each line before it is painted."""
        return [*super().get_line_filters(), _EMOJI_WIDTH]

    def use_theme(self, name: str) -> None:
        """Take the theme "dark" or "light"."""
        self.theme = f"adh-{name}"

    def compose(self) -> ComposeResult:
        """Yield the parts of the screen, from the top."""
        chat = TitledFrame(id="chat")
        chat.show_titles(self.TITLE, "")
        yield chat
        yield Container(id="inline-question")
        yield ChangingLine(id="notices")
        yield ChangingLine(id="queue")
        prompt = PromptInput(id="prompt")
        prompt.show_title(INITIALIZING)
        prompt.border_subtitle = HINTS
        yield prompt
        yield ChangingLine(id="footer")

    @property
    def prompt(self) -> PromptInput:
        """The input."""
        return self.screen_stack[0].query_one(PromptInput)

    def show_queue(self, texts: list[str]) -> None:
        """Show the messages that wait."""
        line = self.screen_stack[0].query_one("#queue", ChangingLine)
        line.show_text(describe_queue(texts, max(20, self.size.width - 4)))
        line.set_class(bool(texts), "shown")

    def show_notice(self, text: str, seconds: float = NOTICE_SECONDS) -> None:
        """Show a line above the input for some seconds."""
        line = "".join(one if one.isprintable() else " " for one in text)
        self._notices = [*self._notices, line][-_MOST_NOTICES:]
        self._show_notices()
        self.set_timer(seconds, lambda: self._drop_notice(line))

    def _drop_notice(self, line: str) -> None:
        if line in self._notices:
            self._notices.remove(line)
            self._show_notices()

    def _show_notices(self) -> None:
        notices = self.screen_stack[0].query_one("#notices", ChangingLine)
        notices.show_text("\n".join(self._notices))
        notices.set_class(bool(self._notices), "shown")
