"""A conversation in the terminal whose turn waits for an answer: it is asked for before the turn goes on.

The end of the input is no answer: the question stays open for another time. This module must never
answer for somebody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.agent import Agent
from holdfast.cli.run_printer import RunPrinter
from holdfast.cli.terminal_questions import format_question, parse_answer
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import AnyQuestion

LATER = "■ the question stays open: come back to this session to answer it"

Read = Callable[[], Awaitable[str | None]]


async def answer_waiting(agent: Agent[str], session: str, read: Read, show: RunPrinter) -> bool:
    """Ask for what the session waits for; whether all of it was answered.

    No turn is under way meanwhile, so that others may answer as well.

    Args:
        agent: that was asked.
        session: the conversation.
        read: the next line that is typed; None at the end.
        show: where it is shown.

    Raises:
        HoldfastError: an answer could not be kept.
    """
    for request in await agent.questions(session):
        if not await _ask_until_answered(agent, session, request, (read, show)):
            show.print_note(LATER)
            return False
    return True


async def is_waiting(agent: Agent[str], session: str) -> bool:
    """Whether the session waits for somebody."""
    try:
        return bool(await agent.questions(session))
    except ConfigurationError:
        return False  # nobody has said anything in it yet


async def _ask_until_answered(
    agent: Agent[str], session: str, question: AnyQuestion, terminal: tuple[Read, RunPrinter]
) -> bool:
    """Put one question until a line answers it; whether one did."""
    read, show = terminal
    while True:
        for line in format_question(question):
            show.print_note(line)
        typed = await read()
        if typed is None:
            return False
        answer = parse_answer(question, typed)
        if answer is None:
            show.print_note("that is no answer to this question")
            continue
        await agent.answer(session, answer)  # when somebody else was faster, theirs counts
        return True
