"""The questions that wait for the person, one after the other.

It must never answer a question, and must never show one twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import ModalScreen

from adh.screen.conversation_port import AskedQuestion
from adh.screen.question_panel import QuestionPanel
from adh.screen.question_view import read_question

if TYPE_CHECKING:
    from adh.screen.chat_frame import ChatFrame

Answer = Callable[[AskedQuestion, object], None]


class QuestionDialog(ModalScreen[None]):
    """A question above the chat."""

    is_question: ClassVar[bool] = True
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


class QuestionQueue:
    """Shows one question at a time.

    Args:
        app: the screen.
        answer: takes an answer.
    """

    def __init__(self, app: ChatFrame, answer: Answer) -> None:
        self._app = app
        self._answer = answer
        self._waiting: list[AskedQuestion] = []
        self._answered = 0
        self._shown: QuestionDialog | InlineQuestion | None = None

    def add(self, asked: AskedQuestion) -> None:
        """Show a question, after those that wait already."""
        if not any(_is_same(asked, one) for one in self._waiting):
            self._waiting.append(asked)
            self._app.call_later(self._refresh)

    def close(self, asked: AskedQuestion) -> None:
        """Take back a question that needs no answer from here any more."""
        self._waiting = [one for one in self._waiting if not _is_same(asked, one)]
        self._app.call_later(self._refresh)

    def _take(self, asked: AskedQuestion, answer: object) -> None:
        if asked not in self._waiting:
            return
        self._waiting.remove(asked)
        self._answered += 1
        self._app.call_later(self._refresh)
        self._answer(asked, answer)

    async def _refresh(self) -> None:
        """Show the first question that waits, and nothing else."""
        wanted = self._waiting[0] if self._waiting else None
        if self._shown is not None and self._shown.panel.asked is not wanted:
            await self._hide(self._shown)
            self._shown = None
        if wanted is None:
            self._answered = 0
            return
        position, total = self._answered + 1, self._answered + len(self._waiting)
        if self._shown is not None:
            self._shown.panel.show_position(position, total)
        else:
            await self._show(wanted, position, total)

    async def _show(self, asked: AskedQuestion, position: int, total: int) -> None:
        app = self._app
        inline = read_question(asked.question).inline
        # The input keeps the keys while the person writes, if the question leaves room for it; Tab goes to the question.
        takes_keys = not (inline and app.prompt.text)
        panel = QuestionPanel(asked, position, total, app.clock, takes_keys=takes_keys)
        if inline:
            self._shown = InlineQuestion(panel, self._take)
            await app.screen_stack[0].query_one("#inline-question", Container).mount(self._shown)
        else:
            self._shown = QuestionDialog(panel, self._take)
            await app.push_screen(self._shown)

    async def _hide(self, shown: QuestionDialog | InlineQuestion) -> None:
        app = self._app
        if isinstance(shown, InlineQuestion):
            await shown.remove()
            app.prompt.focus()
            return
        while shown in app.screen_stack:
            # A dialog above it is closed without a change. Only dismiss ends the wait for a dialog.
            await app.screen.dismiss(None)


def _is_same(one: AskedQuestion, other: AskedQuestion) -> bool:
    return one is other or one.question == other.question
