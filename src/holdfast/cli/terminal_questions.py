"""Questions of a run in a terminal: prints them and parses typed answers.

An invalid line repeats the question, and the end of the input means no. Invisible and
control characters are printed as escapes, and the arguments that somebody is asked to approve are never shortened.
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.cli.run_printer import RunPrinter, make_printable
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.questions import (
    DENIED_TEXT,
    NO_DESCRIPTION,
    AnyAnswer,
    AnyQuestion,
    ClarificationQuestion,
    ContinuationQuestion,
    PermissionQuestion,
    answer_type,
    question_content,
    type_name,
)
from holdfast.runtime.streams.run_stream import RunStream

_LATE = "the question is no longer open"
_YES, _NO = {"y", "yes"}, {"n", "no"}
_PERMISSION_HELP = (
    "y: yes · n [why]: no · s: always with these arguments · a: always · never"
    " · e {json}: yes, with other arguments"
)


def format_question(question: AnyQuestion) -> list[str]:
    """Format a question as lines; the last line lists the possible answers."""
    if isinstance(question, PermissionQuestion):
        arguments = msgspec.json.format(msgspec.json.encode(question.arguments), indent=2).decode()
        place = f" of the server {question.server}" if question.server else ""
        lines = [f"? May {question.tool}{place} run with {arguments}"]
        if question.changed:
            lines.append(f"It has changed since it was approved: {question.changed}.")
        if question.description != NO_DESCRIPTION:
            lines.append(question.description)
        lines.append(_PERMISSION_HELP)
    elif isinstance(question, ContinuationQuestion):
        lines = [
            f"? The limit of {question.limit} iterations is reached. Continue?",
            f"y [how many]: yes, {question.extension} more · n: no",
        ]
    elif isinstance(question, ClarificationQuestion):
        offered = [f"{number}: {option}" for number, option in enumerate(question.options, 1)]
        lines = [f"? {question.question}", " · ".join(offered) or "type an answer"]
    else:
        fields = msgspec.json.encode(question_content(question)).decode()
        wanted = type_name(answer_type(type(question)))
        lines = [f"? {type(question).__name__} {fields}", f"type {wanted}, as JSON"]
    return [part for line in lines for part in make_printable(line).split("\n")]


def parse_answer(question: AnyQuestion, line: str) -> AnyAnswer | None:
    """Parse a typed line; return None if it is not a valid answer.

    >>> where = ClarificationQuestion(question="Where?", options=("Porto", "Faro"))
    >>> parse_answer(where, "2").value
    'Faro'
    """
    word, _, rest = line.strip().partition(" ")
    try:
        if isinstance(question, PermissionQuestion):
            return _parse_permission(question, word.lower(), rest.strip())
        if isinstance(question, ContinuationQuestion):
            return _parse_continuation(question, word.lower(), rest.strip())
        if isinstance(question, ClarificationQuestion):
            return _parse_clarification(question, line.strip())
        if answer_type(type(question)) is str:
            return question.answer(line)
        wanted = answer_type(type(question))
        return question.answer(msgspec.json.decode(line.encode(), type=wanted))
    except (msgspec.MsgspecError, ConfigurationError, AnswerTypeError, ValueError):
        return None


def _parse_permission(question: PermissionQuestion, word: str, rest: str) -> AnyAnswer | None:
    if word in _NO:
        return question.deny(rest or DENIED_TEXT)
    if word in {"e", "edit"}:
        return question.approve(arguments=msgspec.json.decode(rest, type=dict[str, object]))
    if rest:  # a sentence that begins with "a" is not an approval
        return None
    if word in _YES:
        return question.approve()
    if word in {"s", "same"}:
        return question.approve(remember="call")
    if word in {"a", "always"}:
        return question.approve(remember="tool")
    return question.deny(remember="tool") if word == "never" else None


def _parse_continuation(question: ContinuationQuestion, word: str, rest: str) -> AnyAnswer | None:
    if word in _NO:
        return question.deny()
    return question.approve(int(rest or 0)) if word in _YES else None


def _parse_clarification(question: ClarificationQuestion, line: str) -> AnyAnswer | None:
    if line.isdecimal() and 1 <= int(line) <= len(question.options):
        return question.answer(question.options[int(line) - 1])
    return question.answer(line) if line else None


async def ask_in_terminal(
    run: RunStream[str] | RunStream[object],
    question: AnyQuestion,
    read: Callable[[], Awaitable[str | None]],
    show: RunPrinter,
    *,
    keep_open: bool = False,
) -> None:
    """Ask one question in the terminal until it is answered here or elsewhere.

    Args:
        run: the run that asks.
        question: the question.
        read: reads the next line; None at the end of the input.
        show: prints the question.
        keep_open: whether the question stays open at the end of the input, instead of being denied.
    """
    ended = asyncio.ensure_future(run.wait_until_ended(question))
    show.finish_line()
    settled = False
    try:
        while not settled:
            for row in format_question(question):
                show.print_note(row)
            reading = asyncio.ensure_future(read())
            await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])  # the prompt restores the terminal
                show.print_note(_LATE)
                return
            line = reading.result()
            if line is None and keep_open:
                return
            settled = _settle_by_line(run, question, line, show)
    finally:
        ended.cancel()


def _settle_by_line(
    run: RunStream[str] | RunStream[object],
    question: AnyQuestion,
    line: str | None,
    show: RunPrinter,
) -> bool:
    """Answer or dismiss the question by a typed line; return whether that settles it."""
    if line is None:
        run.dismiss(question)
        return True
    answer = parse_answer(question, line)
    if answer is None:
        show.print_note("this is not a valid answer to the question")
        return False
    try:
        accepted = run.answer(sign_answer(answer))
    except ConfigurationError as error:  # the edited arguments do not fit the tool
        print_refusal(error, show)
        return False
    if not accepted:
        show.print_note(_LATE)
    return True


def print_refusal(error: ConfigurationError, show: RunPrinter) -> None:
    """Print why an answer was refused."""
    for row in str(error).splitlines():
        show.print_note(make_printable(row))


def sign_answer(answer: AnyAnswer) -> AnyAnswer:
    """Return the answer with the name of the user who runs this program."""
    try:
        return msgspec.structs.replace(answer, by=getpass.getuser())
    except (OSError, KeyError, ImportError):  # this system does not know the user's name
        return answer
