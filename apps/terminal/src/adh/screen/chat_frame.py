"""The frame of the chat: its layout, its themes, and the lines that show waiting and recent events.

While an answer is streamed, these lines are set 25 times a second, so a line that does not change is not painted
again. A sign that terminals draw in different widths loses its selector: it then takes one cell everywhere. This
module must never know a conversation, an agent or a model.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.text import Text
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Container
from textual.filter import LineFilter
from textual.widgets import Static

from adh.screen.colours import DARK_THEME, LIGHT_THEME
from adh.screen.conversation_port import FooterFacts
from adh.screen.prompt_input import PromptInput


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


_SEPARATOR = "  ·  "
_SHORTEST_FOLDER = 15


def describe_session(facts: FooterFacts, tokens: int, cost: float | None, width: int) -> str:
    """Return the facts of a session in one line; less important ones are left out where they do not fit.

    Args:
        facts: folder, branch, model, session.
        tokens: the tokens so far.
        cost: in dollars; None if it is unknown.
        width: of the line, in cells.

    >>> facts = FooterFacts(folder="~/shop", branch="main", model="gemini", session="s-1")
    >>> describe_session(facts, 12_345, 0.0312, 80)
    '~/shop  ·  main  ·  gemini  ·  s-1  ·  12,345 tokens  ·  $0.03'
    >>> describe_session(facts, 12_345, 0.0312, 40)
    '~/shop  ·  main  ·  gemini'
    >>> long = FooterFacts(folder="/srv/customers/north/shop", model="gemini")
    >>> describe_session(long, 0, None, 40)
    '…ers/north/shop  ·  gemini'
    """
    price = "" if cost is None else f"${cost:.2f}" if cost >= 0.005 or not cost else "<$0.01"
    parts = [
        (0, _cut_start(facts.folder, max(_SHORTEST_FOLDER, width // 3))),
        (1, facts.branch),
        (2, facts.model),
        (5, facts.session),
        (3, f"{tokens:,} tokens" if facts.session else ""),
        (4, price if facts.session else ""),
    ]
    shown = [part for part in parts if part[1]]
    while len(shown) > 1 and cell_len(_join(shown)) > width:
        shown.remove(max(shown))
    line = _join(shown)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def _cut_start(text: str, cells: int) -> str:
    while cell_len(text) > cells:
        text = "…" + text.removeprefix("…")[1:]
    return text


def _join(parts: list[tuple[int, str]]) -> str:
    return _SEPARATOR.join(text for _, text in parts)


def describe_queue(texts: list[str], width: int) -> str:
    """Return one line about the messages that wait; empty for none.

    >>> describe_queue(["Run the tests", "Then commit"], 60)
    '2 messages wait: “Run the tests” · “Then commit”'
    """
    if not texts:
        return ""
    each = max(12, (width - 20) // len(texts))
    words = [" ".join(text.split()) for text in texts]
    cut = [
        word if cell_len(word) <= each else set_cell_size(word, each - 1) + "…" for word in words
    ]
    count = "1 message waits" if len(texts) == 1 else f"{len(texts)} messages wait"
    line = f"{count}: " + " · ".join(f"“{word}”" for word in cut)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


_SELECTED = re.compile("(.?)\ufe0f")


def fix_width(text: str) -> str:
    r"""Return a text of the same width without emoji selectors.

    >>> fix_width("\u26a0\ufe0f medium") == "\u26a0  medium"
    True
    """
    if "\ufe0f" not in text:
        return text
    return _SELECTED.sub(lambda found: found[1] + " " * _count_lost(found), text)


def _count_lost(found: re.Match[str]) -> int:
    return max(0, cell_len(found[0]) - cell_len(found[1]))


class EmojiWidth(LineFilter):
    """Paints every line without emoji selectors."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line, each as wide as before."""
        del background
        return [Segment(fix_width(text), style, control) for text, style, control in segments]


INITIALIZING = "⏳ Initializing agent..."
HINTS = "Enter sends · ^J new line · Esc stops · ^P commands · F1 keys"
NOTICE_SECONDS = 5.0
_MOST_NOTICES = 4
_EMOJI_WIDTH = EmojiWidth()


class ChatFrame(App[None]):
    """The parts of the screen, and the lines that any part of the chat may show there.

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
        """Return the function that changes each line before it is painted."""
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
