"""Gives the answers that a client sent to the open questions of a session.

An answer fits one question by its key and its binding. The first answer counts: one that comes later
changes nothing, and its sender reads what came of the first.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.questions import AnyAnswer, AnyQuestion
from holdfast.server.problems import ProblemError, make_problem
from holdfast.server.protocols.display.question_ids import parse_question_id
from holdfast.server.service import TenantService


async def find_questions(tenant: TenantService, session: str) -> dict[str, AnyQuestion]:
    """Return the open questions of a session by their keys."""
    agent = await tenant.agent_of(session)
    return {question.key: question for question in await agent.questions(session)}


def find_asked(questions: dict[str, AnyQuestion], given: str) -> AnyQuestion | None:
    """Return the open question that an id names; None if it is answered already, or is no id.

    Raises:
        ProblemError: an open question has the key, and the id belongs to another one.
    """
    parsed = parse_question_id(given)
    question = questions.get(parsed[0]) if parsed is not None else None
    if question is not None and parsed is not None and question.binding != parsed[1]:
        raise ProblemError(
            make_problem(
                409,
                "mismatch",
                f"the answer {given!r} belongs to another question",
                fix="Load the chat again, and answer what it asks now",
            )
        )
    return question


async def give_answers(
    tenant: TenantService,
    session: str,
    make: Callable[[dict[str, AnyQuestion]], list[AnyAnswer]],
) -> int:
    """Answer open questions; return how many answers were accepted.

    Args:
        tenant: the tenant.
        session: the session.
        make: makes the answers to the open questions; it raises an error before any is given.
    """
    answers = make(await find_questions(tenant, session))
    return sum([bool(await tenant.answer(session, answer)) for answer in answers])
