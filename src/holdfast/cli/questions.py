"""Questions of a run in a terminal: how they look, and what a typed line answers.

A line that is no answer is asked for again, and the end of the input counts as no. This module must
never print a control character that a model wrote, nor shorten what somebody is asked to approve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.cli.show import Show, printable
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.requests import (
    DENIED_TEXT,
    NO_DESCRIPTION,
    AnyAnswer,
    AnyRequest,
    ClarificationRequest,
    ContinuationRequest,
    PermissionRequest,
    answer_type,
    type_name,
)
from holdfast.runtime.stream import RunStream

_LATE = "the question waits no more"
_YES, _NO = {"y", "yes"}, {"n", "no"}
_PERMISSION_HELP = (
    "y: yes · n [why]: no · s: always with these arguments · a: always · never · e {json}: edit"
)


def shown(request: AnyRequest) -> list[str]:
    """The question in lines, the last of which says what can be typed."""
    if isinstance(request, PermissionRequest):
        arguments = msgspec.json.format(msgspec.json.encode(request.arguments), indent=2).decode()
        lines = [f"? May {request.tool} run with {arguments}"]
        if request.description != NO_DESCRIPTION:
            lines.append(request.description)
        lines.append(_PERMISSION_HELP)
    elif isinstance(request, ContinuationRequest):
        lines = [
            f"? The limit of {request.limit} iterations is reached. Go on?",
            f"y [how many]: yes, {request.extension} more · n: no",
        ]
    elif isinstance(request, ClarificationRequest):
        offered = [f"{number}: {option}" for number, option in enumerate(request.options, 1)]
        lines = [f"? {request.question}", " · ".join(offered) or "type an answer"]
    else:
        plain = msgspec.json.encode(request).decode()
        wanted = type_name(answer_type(type(request)))
        lines = [f"? {type(request).__name__} {plain}", f"type {wanted}, as JSON"]
    return [printable(part) for line in lines for part in line.splitlines()]


def parse(request: AnyRequest, line: str) -> AnyAnswer | None:
    """What a line answers; None when it is no answer.

    >>> parse(ClarificationRequest(question="Where?", options=("Porto", "Faro")), "2")
    Answer(key='', value='Faro')
    """
    word, _, rest = line.strip().partition(" ")
    try:
        if isinstance(request, PermissionRequest):
            return _permission(request, word.lower(), rest.strip())
        if isinstance(request, ContinuationRequest):
            return _continuation(request, word.lower(), rest.strip())
        if isinstance(request, ClarificationRequest):
            return _clarification(request, line.strip())
        if answer_type(type(request)) is str:
            return request.answer(line)
        wanted = answer_type(type(request))
        return request.answer(msgspec.json.decode(line.encode(), type=wanted))
    except (msgspec.MsgspecError, ConfigurationError, AnswerTypeError, ValueError):
        return None


def _permission(request: PermissionRequest, word: str, rest: str) -> AnyAnswer | None:
    if word in _NO:
        return request.deny(rest or DENIED_TEXT)
    if word in {"e", "edit"}:
        return request.approve(arguments=msgspec.json.decode(rest, type=dict[str, object]))
    if rest:  # a sentence that happens to begin with "a" is no approval
        return None
    if word in _YES:
        return request.approve()
    if word in {"s", "same"}:
        return request.approve(remember="call")
    if word in {"a", "always"}:
        return request.approve(remember="tool")
    return request.deny(remember="tool") if word == "never" else None


def _continuation(request: ContinuationRequest, word: str, rest: str) -> AnyAnswer | None:
    if word in _NO:
        return request.deny()
    return request.approve(int(rest or 0)) if word in _YES else None


def _clarification(request: ClarificationRequest, line: str) -> AnyAnswer | None:
    if line.isdecimal() and 1 <= int(line) <= len(request.options):
        return request.answer(request.options[int(line) - 1])
    return request.answer(line) if line else None


async def ask(
    run: RunStream[str],
    request: AnyRequest,
    read: Callable[[], Awaitable[str | None]],
    show: Show,
    *,
    later: bool = False,
) -> None:
    """Put one question to whoever sits there, until it is answered or waits no more.

    Args:
        run: which asks.
        request: the question.
        read: the next line that is typed; None at the end.
        show: where it is shown.
        later: at the end of the input, leave the question open in place of denying it.
    """
    ended = asyncio.ensure_future(run.ended(request))
    show.end()
    settled = False
    try:
        while not settled:
            for row in shown(request):
                show.note(row)
            reading = asyncio.ensure_future(read())
            await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])  # a prompt puts the terminal back as it was
                show.note(_LATE)
                return
            line = reading.result()
            if line is None and later:
                return
            settled = _settled(run, request, line, show)
    finally:
        ended.cancel()


def _settled(run: RunStream[str], request: AnyRequest, line: str | None, show: Show) -> bool:
    """Whether a typed line, or the end of them, settles the question."""
    if line is None:
        run.dismiss(request)
        return True
    answer = parse(request, line)
    if answer is None:
        show.note("that is no answer to this question")
        return False
    if not run.answer(answer):
        show.note(_LATE)
    return True
