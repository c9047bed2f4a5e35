"""Asks and answers the questions of a run without a screen: a person at a terminal, `--yes`, or nobody.

This module must never approve a manual call unless a person typed it. The text of a question is never
shortened, and no character of a model can move the cursor or hide a part of it.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, TextIO

from msgspec import Struct

from adh.approval.question import ApprovalQuestion, UnattendedAnswer
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


PROCEED = "Proceed? [y/N] "
_ICONS = {"none": "✅", "low": "ℹ️", "medium": "⚠️", "high": "⛔", "critical": "🚨"}  # noqa: RUF001  # REASON: signs
_YES = {"y", "yes"}


def format_approval(question: ApprovalQuestion) -> list[str]:
    """Return the lines of a question about a call; the prompt is not one of them.

    Args:
        question: the question.
    """
    icon = _ICONS.get(question.risk, "⚠️")
    lines = [
        f"{icon} Confirmation Required: {question.tool}",
        f"  risk {question.risk}, level {question.level}, {_describe_rule(question.rule)}",
        f"  asked by {question.agent or 'the agent'}, in {question.folder}",
    ]
    if question.reason:
        lines.append(f"  {question.reason}")
    if question.commands:
        lines += ["  commands:", *(f"    {command}" for command in question.commands)]
    hidden = {"content"} if question.diff else set()
    for name, value in question.arguments.items():
        if name not in hidden:
            lines += _format_argument(name, value)
    if question.paths:
        lines += ["  paths:", *(f"    {path}" for path in question.paths)]
    if question.diff:
        lines += ["  change:", *(f"    {line}" for line in question.diff.splitlines())]
    if question.checks:
        lines.append(f"  checks: {', '.join(str(check) for check in question.checks)}")
    if question.restrictions:
        lines.append(f"  restrictions: {', '.join(question.restrictions)}")
    return [escape_invisible(row) for line in lines for row in line.split("\n")]


def format_prompt(question: ApprovalQuestion) -> str:
    """Return the text before the answer."""
    if question.must_type:
        return f"Type {escape_invisible(question.must_type)} to proceed: "
    return PROCEED


def is_yes(question: ApprovalQuestion, line: str) -> bool:
    """Whether a typed line says yes. Anything else is a no, an empty line too.

    Args:
        question: the question.
        line: the typed line.
    """
    if question.must_type:
        return line.strip() == question.must_type
    return line.strip().lower() in _YES


def _describe_rule(rule: str) -> str:
    return f"rule {rule}" if rule else "no rule matches, so you are asked"


def _format_argument(name: str, value: object) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"  {name}:", *(f"    {line}" for line in value.splitlines())]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [f"  {name}: {text}"]


_MOST_BYTES = 4096


async def read_line(stream: TextIO) -> str | None:
    """Return the next typed line without its end; None at the end of the input.

    The terminal collects a line before it can be read.

    Args:
        stream: a terminal or a pipe.
    """
    loop = asyncio.get_running_loop()
    descriptor = stream.fileno()
    collected = b""
    while not collected.endswith(b"\n"):
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _mark_ready, ready)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
        # One byte at a time from a pipe: the bytes after the line belong to the next question.
        piece = os.read(descriptor, _MOST_BYTES if stream.isatty() else 1)
        if not piece:
            return collected.decode(errors="replace") or None
        collected += piece
    return collected.decode(errors="replace").rstrip("\r\n")


def drop_typed(stream: TextIO) -> None:
    """Drop the input from before a question stood: a key that was pressed early is no answer."""
    if stream.isatty():
        import termios

        termios.tcflush(stream.fileno(), termios.TCIFLUSH)


def _mark_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
