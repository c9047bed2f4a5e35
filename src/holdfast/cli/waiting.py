"""A conversation in the terminal whose turn waits for an answer: it is asked for, and the turn goes on.

The end of the input is no answer: the question stays open for another time. This module must never
answer for somebody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.agent import Agent
from holdfast.cli.questions import parse, shown
from holdfast.cli.show import Show
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Status
from holdfast.core.requests import AnyRequest
from holdfast.runtime.result import Result

LATER = "■ the question stays open: come back to this session to answer it"

Read = Callable[[], Awaitable[str | None]]
Resume = Callable[[], Awaitable[Result[str]]]


async def go_on(
    agent: Agent[str], session: str, read: Read, show: Show, resume: Resume
) -> Result[str] | None:
    """Ask for what the session waits for, and let its turn go on to its end.

    Args:
        agent: that was asked.
        session: the conversation.
        read: the next line that is typed; None at the end.
        show: where it is shown.
        resume: lets the turn go on.

    Returns:
        The result of the turn; None when the input ended before the answers.

    Raises:
        HoldfastError: the turn did not complete.
    """
    while True:
        for request in await agent.questions(session):
            if not await _answered(agent, session, request, (read, show)):
                show.note(LATER)
                return None
        result = await resume()
        if result.status is not Status.WAITING:
            return result


async def asked(agent: Agent[str], session: str) -> bool:
    """Whether the session waits for somebody."""
    try:
        return bool(await agent.questions(session))
    except ConfigurationError:
        return False  # nobody has said anything in it yet


async def _answered(
    agent: Agent[str], session: str, request: AnyRequest, terminal: tuple[Read, Show]
) -> bool:
    """Put one question until a line answers it; whether one did."""
    read, show = terminal
    while True:
        for line in shown(request):
            show.note(line)
        typed = await read()
        if typed is None:
            return False
        answer = parse(request, typed)
        if answer is None:
            show.note("that is no answer to this question")
            continue
        await agent.answer(session, answer)  # when somebody else was faster, theirs counts
        return True
