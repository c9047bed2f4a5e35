"""The methods of an agent for the questions of its runs.

They are the same for a run in progress and one that waits. This module must never import the engine, so
that `import holdfast` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from typing_extensions import TypeVar as TypeVarWithDefault

if TYPE_CHECKING:
    from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, Question
    from holdfast.runtime.engine import Engine
    from holdfast.runtime.questions.open_question import Receipt
    from holdfast.runtime.result import Result

T = TypeVarWithDefault("T", default=str)
A = TypeVar("A")


class AgentQuestions(Generic[T]):
    """What `Agent` can do with the questions of its runs."""

    __slots__ = ()

    _engine: Engine[Any]

    async def questions(self, run_id: str) -> tuple[AnyQuestion, ...]:
        """Return the open questions of a run or session, in the order in which they were asked.

        Raises:
            ConfigurationError: the journal has no such run.
        """
        return await self._engine.answering.questions(run_id)

    @overload
    async def answer(self, run_id: str, to: Answer[A], /) -> Receipt: ...
    @overload
    async def answer(self, run_id: str, to: Question[A], value: A, /) -> Receipt: ...
    async def answer(
        self, run_id: str, to: AnyAnswer | AnyQuestion, value: object = None, /
    ) -> Receipt:
        """Answer a question of a run, whether the run is in progress or not.

        A run that waits in this process receives the answer and continues. For any other run, the
        answer is in the journal when this method returns, and `resume` uses it.

        An answer belongs to one question. It is refused when the question belongs to another run, to
        an earlier session of the same name, or shows something else.

        Args:
            run_id: the id of the run, or the name of the session.
            to: an answer, such as `question.approve(by="ann")`; or the question.
            value: the answer, when `to` is a question.

        Returns:
            A true value when the answer was accepted, otherwise a false one with the reason.

        Raises:
            AnswerTypeError: the question asks for another type; it stays open.
            ConfigurationError: the journal has no such run, this process does not know the class of
                the question, or the edited arguments do not fit the tool.
        """
        from holdfast.runtime.questions.open_question import address_answer

        return await self._engine.answering.answer(run_id, address_answer(to, value))

    async def abandon(self, run_id: str, *, by: str = "") -> Result[T]:
        """Give up a turn that waits for an answer, or that a crash interrupted.

        The turn is closed as cancelled, and so are the open turns of agents in its tools. Its history
        says what was attempted, and the session accepts the next message. A turn that has ended
        stays as it is. The journal also saves `by`: who gives the turn up.

        Raises:
            ConfigurationError: the journal has no such run or session.
        """
        return cast("Result[T]", await self._engine.answering.abandon(run_id, by))
