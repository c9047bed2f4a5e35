"""One turn without a screen: sends the task, lets questions be answered one after another, and waits for the end.

The conversation is that of the screen, so the same rules decide. This module must never approve a call itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct

from adh.commands.command_error import CommandError
from adh.commands.question_answers import RunAnswers
from adh.transcript.blocks import Block, ToolBlock
from adh.transcript.outcome import Outcome
from holdfast import Question


class TurnTranscript(Protocol):
    """What is read of a transcript."""

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, in order."""
        ...

    @property
    def status(self) -> str:
        """The line that says what is going on."""
        ...

    @property
    def outcome(self) -> Outcome | None:
        """How the last turn ended; None while one runs."""
        ...


class Asked(Protocol):
    """A question that waits for its answer."""

    @property
    def question(self) -> Question[Any]:
        """The question."""
        ...


class TurnConversation(Protocol):
    """What is driven of a conversation."""

    on_change: Callable[[tuple[str, ...]], None]
    on_question: Callable[[Any], None] | None

    @property
    def transcript(self) -> TurnTranscript:
        """What was said and done so far."""
        ...

    @property
    def problem(self) -> str:
        """Why no message can be answered; empty if one can."""
        ...

    async def start(self) -> None:
        """Begin; a turn that was interrupted continues."""
        ...

    def send(self, text: str) -> object:
        """Send a message."""
        ...

    def answer(self, question: Any, answer: Any) -> object:
        """Give an answer; what is returned is false if it came too late."""
        ...

    def stop(self) -> None:
        """Stop the turn in progress."""
        ...


class TurnRecord(Struct, frozen=True, kw_only=True):
    """How a turn ended.

    Args:
        outcome: its outcome.
        answered_by: who answered, by the key of the question.
    """

    outcome: Outcome
    answered_by: dict[str, str]


class HeadlessTurn:
    """A turn without a screen.

    Args:
        conversation: the conversation.
        answers: who answers its questions.
        show: shows a line about the progress; None for none.
    """

    def __init__(
        self,
        conversation: TurnConversation,
        answers: RunAnswers,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._conversation = conversation
        self._answers = answers
        self._show = show
        self._shown: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._questions: asyncio.Queue[Asked] = asyncio.Queue()
        self._answered_by: dict[str, str] = {}

    async def run(self, prompt: str | None) -> TurnRecord:
        """Run the turn to its end. Ctrl-C stops it; once more ends the program.

        Args:
            prompt: the task; None to finish the turn that was interrupted.

        Raises:
            CommandError: the conversation can answer nothing, such as without an API key.
        """
        conversation = self._conversation
        conversation.on_change = self._note_change
        conversation.on_question = self._questions.put_nowait
        with _stop_on_interrupt(conversation.stop):
            answering = asyncio.ensure_future(self._answer_questions())
            try:
                await conversation.start()
                if conversation.problem:
                    raise CommandError(conversation.problem)
                if prompt is not None:
                    conversation.send(prompt)
                outcome = await self._wait_for_outcome(answering)
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
        return TurnRecord(outcome=outcome, answered_by=self._answered_by)

    async def _wait_for_outcome(self, answering: asyncio.Future[None]) -> Outcome:
        while (outcome := self._conversation.transcript.outcome) is None:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            awaited: set[asyncio.Future[Any]] = {changed, answering}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if answering.done():
                answering.result()  # it ends by an error alone
        return outcome

    async def _answer_questions(self) -> None:
        while True:
            asked = await self._questions.get()
            question = asked.question
            given = await self._answers.choose(question)
            if given.answer is None:
                self._conversation.stop()
                continue
            if self._conversation.answer(asked, given.answer):
                self._answered_by[question.key] = given.by
            elif self._show is not None:
                self._show("The answer came too late: the question is no longer open.")

    def _note_change(self, ids: tuple[str, ...]) -> None:
        self._changed.set()
        if self._show is None:
            return
        transcript = self._conversation.transcript
        self._show_once("status", transcript.status)
        changed = set(ids)
        for block in transcript.blocks:
            if block.id in changed and isinstance(block, ToolBlock):
                self._show_once(block.id, _describe_tool(block))

    def _show_once(self, place: str, line: str) -> None:
        if line and self._shown.get(place) != line and self._show is not None:
            self._shown[place] = line
            self._show(line)


def _describe_tool(block: ToolBlock) -> str:
    decided = f" [{block.level}, {block.risk}, {block.rule or 'no rule'}]" if block.level else ""
    return f"{block.header}{decided}"


@contextmanager
def _stop_on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C stop the turn, so that its end is saved and reported."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    is_enabled = before not in (signal.SIG_IGN, None)

    def on_interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
        stop()

    if is_enabled:
        loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if is_enabled:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)
