"""Asks the open questions of a waiting turn in the terminal, before the turn is resumed.

The end of the input is not an answer: the question stays open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.agent import Agent
from holdfast.cli.run_printer import RunPrinter
from holdfast.cli.terminal_questions import (
    format_question,
    parse_answer,
    print_refusal,
    sign_answer,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import AnyQuestion

LATER = "■ the question stays open: start this session again to answer it"

Read = Callable[[], Awaitable[str | None]]


async def answer_waiting(agent: Agent[str], session: str, read: Read, show: RunPrinter) -> bool:
    """Ask the open questions of a session; return whether all of them were answered.

    No turn runs meanwhile, so another process may answer as well.

    Args:
        agent: the agent of the session.
        session: the name of the conversation.
        read: reads the next line; None at the end of the input.
        show: prints the questions.

    Raises:
        HoldfastError: an answer could not be saved.
    """
    for question in await agent.questions(session):
        if not await _ask_until_answered(agent, session, question, (read, show)):
            show.print_note(LATER)
            return False
    return True


async def is_waiting(agent: Agent[str], session: str) -> bool:
    """Whether the session has an open question."""
    try:
        return bool(await agent.questions(session))
    except ConfigurationError:
        return False  # the session does not exist yet


async def _ask_until_answered(
    agent: Agent[str], session: str, question: AnyQuestion, terminal: tuple[Read, RunPrinter]
) -> bool:
    """Ask one question until a line answers it; return whether one did."""
    read, show = terminal
    while True:
        for line in format_question(question):
            show.print_note(line)
        typed = await read()
        if typed is None:
            return False
        answer = parse_answer(question, typed)
        if answer is None:
            show.print_note("this is not a valid answer to the question")
            continue
        try:
            # An earlier answer of another process counts instead.
            await agent.answer(session, sign_answer(answer))
        except ConfigurationError as error:  # the edited arguments do not fit the tool
            print_refusal(error, show)
            continue
        return True
