"""The routes of questions and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from holdfast.core.acts import Act
from holdfast.core.errors import AnswerTypeError
from holdfast.core.events import QuestionAnswered
from holdfast.core.questions import (
    DENIED_TEXT,
    AnyAnswer,
    AnyQuestion,
    Approved,
    ContinuationQuestion,
    Continued,
    Denied,
    restore_answer,
)
from holdfast.core.questions import (
    Answer as QuestionAnswer,
)
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.open_questions import ListedQuestion, QuestionQuery
from holdfast.server.access.budgets import READS
from holdfast.server.access.callers import take_further_turn
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NewAnswer, NoBody, NoQuery, QuestionsQuery
from holdfast.server.api.session_pages import PageMark, read_mark, write_mark
from holdfast.server.api.session_reading import read_questions, view_question
from holdfast.server.api.views import AnswerView, QuestionList, QuestionPage
from holdfast.server.problem_responses import ProblemError, make_problem

_FIELDS = {
    "approve": {"arguments", "remember"},
    "deny": {"reason", "remember"},
    "continue": {"iterations"},
    "value": {"value"},
}
"""The fields of each answer."""


async def list_questions(call: Call[QuestionsQuery, NoBody]) -> Response:
    """List open questions of all sessions; those of the session that waits longest come first."""
    query = call.query
    after = (0.0, "")
    if query.after is not UNSET:
        mark = read_mark(query.after, "after")
        after = (mark.changed_at, mark.session)
    agent = None if query.agent is UNSET else query.agent
    wanted = QuestionQuery(limit=query.limit, after=after, agent=agent)
    found = await call.tenant.journal.list_questions(wanted)
    shown = _cut_page(found, query.limit)
    views = tuple(view_question(one) for one in shown)
    if len(shown) < len(found) or len({one.run for one in found}) == query.limit:
        return respond(
            QuestionPage(views, write_mark(PageMark(shown[-1].changed_at, shown[-1].run)))
        )
    return respond(QuestionPage(views))


def _cut_page(found: Sequence[ListedQuestion], limit: int) -> Sequence[ListedQuestion]:
    """Return the questions of the first sessions, until there are enough. No session is divided."""
    if len(found) <= limit:
        return found
    last = found[limit - 1].run
    return [*found[:limit], *(one for one in found[limit:] if one.run == last)]


async def list_session_questions(call: Call[NoQuery, NoBody]) -> Response:
    """List the open questions of one session."""
    return respond(await read_questions(call.tenant, call.session))


async def answer_question(call: Call[NoQuery, NewAnswer]) -> Response:
    """Answer a question; the turn goes on by itself."""
    tenant, session, body = call.tenant, call.session, call.body
    _check_fields(body)
    agent = await tenant.agent_of(session)
    asked = {question.key: question for question in await agent.questions(session)}
    take_further_turn(call.request, is_driven=tenant.runner.is_driven(session))
    act = call.make_act("answer", key=body.key, answer=body.answer)
    answer = make_answer(asked.get(body.key), body, act.by)
    receipt = await tenant.answer(session, msgspec.structs.replace(answer, act=act))
    # A process that was asked for it before may have saved it just now.
    if receipt or await tenant.journal.find_act(act.id) is not None:
        return await _answer_accepted(call, act)
    if receipt.reason in (
        "answered",
        "unknown",
    ):  # the saves of another process just now are unknown
        first = await _find_first(tenant, session, body.key)
        if first is not None:
            return respond(AnswerView(accepted=False, reason="answered", by_whom=first.by))
    return respond(AnswerView(accepted=False, reason=receipt.reason))


async def _answer_accepted(_call: Call[NoQuery, NewAnswer], _act: Act) -> Response:
    return respond(AnswerView(accepted=True))


def _check_fields(body: NewAnswer) -> None:
    """Raise ProblemError for a field that does not go with the answer."""
    allowed = _FIELDS[body.answer]
    for name in ("arguments", "remember", "reason", "iterations", "value"):
        if name not in allowed and getattr(body, name) is not UNSET:
            detail = f"does not go with the answer {body.answer!r}"
            problem = make_problem(422, "body", detail, field=name, fix="Leave it out")
            raise ProblemError(problem)
    if body.answer == "value" and body.value is UNSET:
        raise ProblemError(make_problem(422, "body", "is missing", field="value"))


def make_answer(question: AnyQuestion | None, body: NewAnswer, by: str) -> AnyAnswer:
    """Return the answer that a request gives.

    Args:
        question: the question; None if it is not open.
        body: the request.
        by: who gives it.

    Raises:
        AnswerTypeError: the question asks for another type.
    """
    value = _make_value(question, body)
    return QuestionAnswer(body.key, value, body.binding, by)


def _make_value(question: AnyQuestion | None, body: NewAnswer) -> Any:
    match body.answer:
        case "deny":
            reason = _or(body.reason, DENIED_TEXT)
            return Denied(reason=reason, remember=_or(body.remember, "once"))
        case "continue":
            return Continued(iterations=_or(body.iterations, 0))
        case "approve" if isinstance(question, ContinuationQuestion):
            raise AnswerTypeError("Continued | Denied", "Approved")
        case "approve":
            arguments = None if body.arguments is UNSET else body.arguments
            return Approved(remember=_or(body.remember, "once"), arguments=arguments)
        case _:
            return body.value if question is None else restore_answer(question, body.value)


def _or(value: Any | UnsetType, default: Any) -> Any:
    return default if value is UNSET else value


async def _find_first(tenant: TenantService, session: str, key: str) -> QuestionAnswered | None:
    """Return the answer that counts; None if there is none."""
    for record in await tenant.journal.read_by_keys(session, [key]):
        if isinstance(record.event, QuestionAnswered):
            return record.event
    return None


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="list_questions",
        method="GET",
        path="/questions",
        text="List the open questions of all sessions. The session that waits longest comes first.",
        scope="read",
        takes=READS,
        handle=list_questions,
        query=QuestionsQuery,
        body=NoBody,
        answers={200: (OperationAnswer(QuestionPage, "The open questions."),)},
    ),
    Operation(
        name="list_session_questions",
        method="GET",
        path="/sessions/{session}/questions",
        text="List the open questions of a session.",
        scope="read",
        takes=READS,
        handle=list_session_questions,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(QuestionList, "The open questions."),)},
        refusals=(404,),
    ),
    Operation(
        name="answer_question",
        method="POST",
        path="/sessions/{session}/answers",
        text="Answer a question. If the answer counts, the turn goes on by itself.",
        scope="answer",
        takes=("requests", "turns", "bytes"),
        handle=answer_question,
        query=NoQuery,
        body=NewAnswer,
        carries="json",
        once="act",
        answer_again=_answer_accepted,
        answers={200: (OperationAnswer(AnswerView, "Whether the answer counts."),)},
        refusals=(404, 409),
    ),
)
"""The operations on questions."""
