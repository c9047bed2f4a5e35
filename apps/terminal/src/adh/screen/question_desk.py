"""The questions that wait for the person, one after the other.

It must never answer a question, and must never show one twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import ModalScreen

from adh.screen.conversation_port import AskedQuestion
from adh.screen.question_panel import QuestionPanel

if TYPE_CHECKING:
    from adh.screen.chat_app import ChatApp

Answer = Callable[[AskedQuestion, object], None]


class QuestionDialog(ModalScreen[None]):
    """A question above the chat."""

    DEFAULT_CSS = """
    QuestionDialog { align: center middle; background: $background 70%; }
    QuestionDialog QuestionPanel { width: 100; max-width: 96%; max-height: 96%; }
    """

    def __init__(self, panel: QuestionPanel, answer: Answer) -> None:
        super().__init__()
        self.panel = panel
        self._answer = answer

    def compose(self) -> ComposeResult:
        """Yield the question."""
        yield self.panel

    def on_mount(self) -> None:
        """Take the keys."""
        self.panel.focus_answer()

    def on_resize(self) -> None:
        """Fit the question into the screen."""
        self.panel.fit(self.size.height)

    @on(QuestionPanel.Answered)
    def _pass_on(self, event: QuestionPanel.Answered) -> None:
        event.stop()
        self._answer(event.asked, event.answer)


class InlineQuestion(Container):
    """A question of low risk, between the chat and the input."""

    DEFAULT_CSS = "InlineQuestion { height: auto; }"

    def __init__(self, panel: QuestionPanel, answer: Answer) -> None:
        super().__init__()
        self.panel = panel
        self._answer = answer

    def compose(self) -> ComposeResult:
        """Yield the question."""
        yield self.panel

    def on_mount(self) -> None:
        """Leave half of the screen to the chat."""
        self.panel.fit(self.app.size.height // 2)

    def on_resize(self) -> None:
        """Leave half of the screen to the chat."""
        self.panel.fit(self.app.size.height // 2)

    @on(QuestionPanel.Answered)
    def _pass_on(self, event: QuestionPanel.Answered) -> None:
        event.stop()
        self._answer(event.asked, event.answer)


class QuestionDesk:
    """Shows one question at a time.

    Args:
        app: the screen.
        answer: takes an answer.
    """

    def __init__(self, app: ChatApp, answer: Answer) -> None:
        self._app = app
        self._answer = answer
        self._waiting: list[AskedQuestion] = []
        self._answered = 0
        self._shown: QuestionDialog | InlineQuestion | None = None

    def add(self, asked: AskedQuestion) -> None:
        """Show a question, after those that wait already."""
        if any(_is_same(asked, one) for one in self._waiting):
            return
        self._waiting.append(asked)
        if self._shown is None:
            self._show()
        else:
            self._shown.panel.show_position(*self._position)

    @property
    def _position(self) -> tuple[int, int]:
        return self._answered + 1, self._answered + len(self._waiting)

    def close(self, asked: AskedQuestion) -> None:
        """Take back a question that needs no answer from here any more."""
        found = [one for one in self._waiting if _is_same(asked, one)]
        for one in found:
            self._remove(one)

    def _take(self, asked: AskedQuestion, answer: object) -> None:
        self._answered += 1
        self._remove(asked)
        self._answer(asked, answer)

    def _remove(self, asked: AskedQuestion) -> None:
        if asked not in self._waiting:
            return
        is_shown = self._waiting[0] is asked
        self._waiting.remove(asked)
        if not self._waiting:
            self._answered = 0
        if is_shown:
            self._hide()
            if self._waiting:
                self._show()
        elif self._shown is not None:
            self._shown.panel.show_position(*self._position)

    def _show(self) -> None:
        asked = self._waiting[0]
        position, total = self._position
        panel = QuestionPanel(asked, position, total, self._app.clock)
        if panel.view.inline:
            self._show_inline(InlineQuestion(panel, self._take))
        else:
            dialog = QuestionDialog(panel, self._take)
            self._shown = dialog
            self._app.push_screen(dialog)

    def _show_inline(self, inline: InlineQuestion) -> None:
        self._shown = inline
        app = self._app
        app.screen_stack[0].query_one("#inline-question", Container).mount(inline)
        if not app.prompt.text:
            # What the person is writing keeps the keys; Tab goes to the question.
            app.call_after_refresh(inline.panel.focus_answer)

    def _hide(self) -> None:
        shown, self._shown = self._shown, None
        if isinstance(shown, QuestionDialog):
            self._app.call_later(_dismiss, shown)
        elif shown is not None:
            shown.remove()
            self._app.prompt.focus()


async def _dismiss(dialog: QuestionDialog) -> None:
    """Close a dialog, wherever it lies among the others."""
    if dialog.is_current:
        dialog.dismiss()
    elif dialog in dialog.app.screen_stack:
        stack = dialog.app.screen_stack
        above = stack[stack.index(dialog) + 1 :]
        for screen in reversed(above):
            screen.dismiss()
        dialog.dismiss()


def _is_same(one: AskedQuestion, other: AskedQuestion) -> bool:
    return one is other or one.question == other.question
