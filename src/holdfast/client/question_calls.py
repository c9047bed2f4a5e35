"""The calls of a client that are about questions and answers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from holdfast.client.service_connection import ServiceConnection, call, get, post, session_path
from holdfast.core.questions import Remember
from holdfast.server.api.request_bodies import NewAnswer
from holdfast.server.api.views import AnswerView, QuestionList, QuestionPage, QuestionView


class QuestionCalls:
    """The calls of a client about questions: `client.questions`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    async def list(
        self, *, agent: str | None = None, limit: int = 100, after: str | None = None
    ) -> QuestionPage:
        """List open questions of all sessions; those of the session that waits longest come first.

        Args:
            agent: only questions of turns with this agent.
            limit: how many; a page has some more if its last session asks several questions.
            after: the `next` of the page before.
        """
        query = {"agent": agent, "limit": limit, "after": after}
        return await call(self._connection, get("/questions", query), QuestionPage)

    async def of(self, session: str) -> QuestionList:
        """List the open questions of a session."""
        return await call(self._connection, get(session_path(session, "/questions")), QuestionList)

    async def approve(
        self,
        question: QuestionView,
        *,
        arguments: Mapping[str, object] | None = None,
        remember: Remember = "once",
    ) -> AnswerView:
        """Answer yes. The turn goes on by itself.

        Args:
            question: the question.
            arguments: the tool runs with these instead.
            remember: how far the answer applies.
        """
        edited = UNSET if arguments is None else dict(arguments)
        return await self._answer(
            question,
            NewAnswer(
                key=question.key,
                binding=question.binding,
                answer="approve",
                arguments=edited,
                remember=remember,
            ),
        )

    async def deny(
        self, question: QuestionView, reason: str | None = None, *, remember: Remember = "once"
    ) -> AnswerView:
        """Answer no.

        Args:
            question: the question.
            reason: why, in words that the model may read.
            remember: how far the answer applies.
        """
        return await self._answer(
            question,
            NewAnswer(
                key=question.key,
                binding=question.binding,
                answer="deny",
                reason=reason or UNSET,
                remember=remember,
            ),
        )

    async def extend(self, question: QuestionView, iterations: int | None = None) -> AnswerView:
        """Let a turn go on beyond its limit of iterations.

        Args:
            question: the question.
            iterations: how many more; by default the number that the question offers.
        """
        more = UNSET if iterations is None else iterations
        return await self._answer(
            question,
            NewAnswer(
                key=question.key, binding=question.binding, answer="continue", iterations=more
            ),
        )

    async def answer(self, question: QuestionView, value: object) -> AnswerView:
        """Answer with a value, of the type that the question asks for."""
        return await self._answer(
            question,
            NewAnswer(key=question.key, binding=question.binding, answer="value", value=value),
        )

    async def _answer(self, question: QuestionView, body: NewAnswer) -> AnswerView:
        sending = post(session_path(question.session, "/answers"), body)
        return await call(self._connection, sending, AnswerView)
