"""The questions that wait for the person, in the order in which they came.

A question that nobody answers in time counts as no. This module must never say yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from holdfast import Answer, Question

ANSWER_SECONDS = 300.0
"""Seconds that a question waits for its answer."""


class OpenQuestion(Struct, frozen=True):
    """A question that waits for the person.

    Args:
        question: the question of the library.
        number: its place among the open ones when it came, from 1.
    """

    question: Question[Any]
    number: int = 1


class QuestionDesk:
    """The questions that wait for the person.

    Args:
        wait: waits for this many seconds; a test passes its own clock.
    """

    def __init__(self, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._wait = wait
        self._open: dict[str, OpenQuestion] = {}
        self._left = asyncio.Event()
        self.on_question: Callable[[OpenQuestion], None] | None = None
        """Shows a question. Without it nobody is there to answer."""
        self.on_closed: Callable[[OpenQuestion], None] = lambda _opened: None
        """Called with each question that waits no longer, however it ended."""

    @property
    def questions(self) -> tuple[OpenQuestion, ...]:
        """The open questions, the oldest first."""
        return tuple(self._open.values())

    def leave(self) -> None:
        """Leave all questions open: the program ends, and they are asked again when it goes on."""
        self._left.set()

    async def ask(self, question: Question[Any]) -> Answer[Any] | None:
        """Show a question and wait until the library takes it back, as it does once it is answered.

        Returns:
            The answer that counts when there was none: no. None after `leave`.

        Raises:
            UnansweredError: this kind of question has no "no".
        """
        if self.on_question is None:
            return question.answer(question.default_answer("nobody"), by="nobody")
        opened = OpenQuestion(question, len(self._open) + 1)
        self._open[question.key] = opened
        try:
            self.on_question(opened)
            if await self._wait_for_end():
                return None
        finally:
            self._open.pop(question.key, None)
            self.on_closed(opened)
        return question.answer(question.default_answer("timeout"), by="timeout")

    async def _wait_for_end(self) -> bool:
        """Wait until the time is over; return whether the questions were left before."""
        left = asyncio.ensure_future(self._left.wait())
        late = asyncio.ensure_future(self._wait(ANSWER_SECONDS))
        try:
            await asyncio.wait((left, late), return_when=asyncio.FIRST_COMPLETED)
            return left.done()
        finally:
            for one in (left, late):
                one.cancel()
            await asyncio.gather(left, late, return_exceptions=True)
