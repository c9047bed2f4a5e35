"""Who answers the questions of a run without a screen: a person at a terminal, `--yes`, or nobody.

This module must never approve what a rule calls manual, unless a person typed it.
"""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from adh.approval.question import ApprovalQuestion, UnattendedAnswer
from adh.commands.question_text import format_approval, format_prompt, is_yes
from holdfast import (
    Answer,
    Approved,
    ClarificationQuestion,
    ContinuationQuestion,
    PermissionQuestion,
    Question,
)
from holdfast.middleware import escape_invisible

YES_FLAG = "--yes"
NOBODY = "nobody"


class HeadlessAnswer(Struct, frozen=True):
    """An answer and who gave it.

    Args:
        by: a user, "--yes" or "nobody".
        answer: the answer; None if there is none, which counts as no.
    """

    by: str
    answer: Answer[Any] | None


class RunAnswers:
    """Answers the questions of a run.

    Args:
        show: shows a line to the person.
        read: shows a prompt and reads a line, None at the end of the input; None without a terminal.
        says_yes: whether `--yes` was given.
    """

    def __init__(
        self,
        show: Callable[[str], None],
        read: Callable[[str], Awaitable[str | None]] | None,
        *,
        says_yes: bool,
    ) -> None:
        self._show = show
        self._read = read
        self._says_yes = says_yes

    async def choose(self, question: Question[Any]) -> HeadlessAnswer:
        """Return the answer to a question.

        Args:
            question: the question.
        """
        match question:
            case PermissionQuestion():
                return await self._choose_permission(question)
            case ContinuationQuestion():
                return await self._choose_continuation(question)
            case ClarificationQuestion():
                return await self._choose_text(question)
        return HeadlessAnswer(NOBODY, None)

    async def _choose_permission(self, question: PermissionQuestion) -> HeadlessAnswer:
        if not isinstance(question, ApprovalQuestion):
            return HeadlessAnswer(NOBODY, None)
        given = UnattendedAnswer(accept_confirm=self._says_yes).answer(question)
        if isinstance(given.value, Approved):
            return HeadlessAnswer(YES_FLAG, given)
        if self._read is None:
            return HeadlessAnswer(NOBODY, given)
        for row in format_approval(question):
            self._show(row)
        user = find_user()
        line = await self._read(format_prompt(question))
        if line is None:
            return HeadlessAnswer(NOBODY, given)
        if is_yes(question, line):
            return HeadlessAnswer(user, question.approve(by=user, typed=question.must_type))
        return HeadlessAnswer(user, question.deny(by=user))

    async def _choose_continuation(self, question: ContinuationQuestion) -> HeadlessAnswer:
        if self._says_yes:
            return HeadlessAnswer(YES_FLAG, question.approve(by=YES_FLAG))
        if self._read is None:
            return HeadlessAnswer(NOBODY, question.deny(by=NOBODY))
        user = find_user()
        self._show(f"The limit of {question.limit} iterations is reached.")
        line = await self._read(f"Continue for {question.extension} more? [y/N] ")
        agreed = (line or "").strip().lower() in ("y", "yes")
        return HeadlessAnswer(user, question.approve(by=user) if agreed else question.deny(by=user))

    async def _choose_text(self, question: ClarificationQuestion) -> HeadlessAnswer:
        if self._read is None:
            return HeadlessAnswer(NOBODY, None)
        user = find_user()
        self._show(escape_invisible(question.question))
        for number, option in enumerate(question.options, 1):
            self._show(escape_invisible(f"  {number}: {option}"))
        line = (await self._read("> ") or "").strip()
        if not line:
            return HeadlessAnswer(user, None)
        if line.isdecimal() and 1 <= int(line) <= len(question.options):
            line = question.options[int(line) - 1]
        return HeadlessAnswer(user, question.answer(line, by=user))


def find_user() -> str:
    """Return the name of the person who runs this program; "person" if the system does not know it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "person"
