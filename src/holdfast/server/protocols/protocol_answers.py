"""Gives the answers that a client sent to the open questions of a session.

An answer fits one question by its key and its binding. The first answer counts: one that comes later
changes nothing, and its sender reads what came of the first.
"""

from __future__ import annotations

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.question_log import asker_key
from holdfast.core.questions import AnyQuestion
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.display.question_ids import parse_question_id


async def find_questions(tenant: TenantService, session: str) -> dict[str, AnyQuestion]:
    """Return the open questions of a session by their keys."""
    agent = await tenant.agent_of(session)
    return {question.key: question for question in await agent.questions(session)}


def find_asked(questions: dict[str, AnyQuestion], given: str) -> AnyQuestion | None:
    """Return the open question of an id; None if it is answered already, or no question has it.

    Args:
        questions: the open questions by their keys.
        given: the id of the question; or the call that the client ran itself.

    Raises:
        ProblemError: an open question has the key, and the id belongs to another one.
    """
    parsed = parse_question_id(given)
    if parsed is None:
        return _find_client_call(questions, given)
    question = questions.get(parsed[0])
    if question is not None and question.binding != parsed[1]:
        raise ProblemError(
            make_problem(
                409,
                "mismatch",
                f"the answer {given!r} belongs to another question",
                fix="Load the chat again, and answer what it asks now",
            )
        )
    return question


def _find_client_call(questions: dict[str, AnyQuestion], call: str) -> AnyQuestion | None:
    """Return the open question of a call that the client runs itself."""
    for question in questions.values():
        if isinstance(question, ClientToolQuestion) and asker_key(question.key) == call:
            return question
    return None
