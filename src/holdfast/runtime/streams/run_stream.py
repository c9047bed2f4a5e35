"""The stream of a run: events and notices as they are emitted, and the result at the end.

An iterator that is read to its end raises the error of the run. So a failed run is never taken for a
complete one. Leaving the `async with` block early cancels the run, waits until it has ended, and
raises nothing. A stream must never change the run; it only reads it and delivers answers to its
questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar, overload

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelReplied, TurnStopped
from holdfast.core.model_request import OutputSchema
from holdfast.core.questions import Answer, AnyQuestion, Question
from holdfast.runtime.parallel import name_task
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.open_question import Receipt, address_answer
from holdfast.runtime.result import Result
from holdfast.runtime.streams.shown_text import ShownText
from holdfast.runtime.turn_state.channel import Channel, require_asyncio
from holdfast.runtime.turn_state.leaving_open import Shutdown

T = TypeVar("T")
A = TypeVar("A")


class RunStream(Generic[T]):
    """The stream that `agent.stream(...)` and `agent.resume_stream(...)` return; use it with `async with`.

    Args:
        start: runs the turn with a channel to publish to, and returns its result.
        questions: receives the answers.
        output: the schema of the output; None for text.
    """

    __slots__ = (
        "_channel",
        "_is_cancelled",
        "_output",
        "_questions",
        "_shown",
        "_shutdown",
        "_start",
        "_task",
    )

    def __init__(
        self,
        start: Callable[[Channel], Awaitable[Result[T]]],
        questions: QuestionBroker,
        output: OutputSchema | None = None,
    ) -> None:
        self._output = output
        self._start = start
        self._questions = questions
        self._shutdown = Shutdown()
        self._channel = Channel(self._shutdown)
        self._shown = ShownText()
        self._task: asyncio.Task[Result[T]] | None = None
        self._is_cancelled = False  # by `cancel()` or `leave_open()`

    async def __aenter__(self) -> RunStream[T]:
        if self._task is not None:
            raise RuntimeError("a stream runs once: ask the agent for another one")
        require_asyncio()
        self._task = asyncio.create_task(self._run_turn(), name=name_task())
        # A callback, because a task that is cancelled before its first step runs no `finally`.
        self._task.add_done_callback(self._close_channel)
        return self

    async def _run_turn(self) -> Result[T]:
        return await self._start(self._channel)

    def _close_channel(self, task: asyncio.Task[Result[T]]) -> None:
        if not task.cancelled():
            self._channel.close(task.exception())
        elif self._is_cancelled:
            # The caller of `cancel` knows why the items end.
            self._channel.close()
        else:
            self._channel.close(asyncio.CancelledError())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.abandon()
        task = self._require_task()
        if not task.done():
            task.cancel()
        await asyncio.wait([task])

    def _require_task(self) -> asyncio.Task[Result[T]]:
        if self._task is None:
            raise RuntimeError("use the stream inside `async with ... as run`")
        return self._task

    def __aiter__(self) -> Channel:
        """Iterate over the events and notices; the end raises the error of the run.

        After `cancel()` the items end without an exception.
        """
        self._require_task()
        return self._channel

    async def text(self, *, live: bool = False) -> AsyncIterator[str]:
        """Yield the text of the replies, reply by reply or live; the end raises the error of the run.

        The final text of a turn that a middleware has stopped is yielded too.

        Args:
            live: yield text piece by piece while the model writes it. The text may become void.

        Raises:
            TextWithdrawn: with `live`, text that was yielded is void: the attempt is repeated, a hook
                replaced the reply, or the output does not fit. Discard it and call this again.
            HoldfastError: the run failed. It is raised after the last piece.
        """
        replacement = self._shown.take_next() if live else ""
        if replacement:
            yield replacement
        async for item in self:
            if live:
                text = self._shown.feed(item)
            elif isinstance(item, ModelReplied):
                text = item.reply.text
            else:
                text = item.text if isinstance(item, TurnStopped) else ""
            if text:
                yield text

    async def partials(self) -> AsyncIterator[object]:
        """Yield the structured output while it is streamed, as unchecked dicts and lists.

        Use this for previews only. Every value is the same object, which grows; copy it to keep
        it. The longer the text, the larger the steps. None means that the previous value is
        invalid, because the attempt failed or the output did not pass its check and is written
        again.

        Raises:
            ConfigurationError: the agent has no output type.
            HoldfastError: the run failed. It is raised after the last value.
        """
        if self._output is None:
            raise ConfigurationError(
                "output", "the answer is text, which has no parts", fix="Use run.text(live=True)"
            )
        from holdfast.core.partial_json import Partials  # imported only when it is used

        preview = Partials(self._output)
        async for item in self:
            if preview.feed(item):
                yield preview.value

    async def wait(self) -> Result[T]:
        """Wait for the run to finish and return its result; raises the error of the run.

        From now on the stream has no reader for questions, as after `leave_questions`.
        """
        self.leave_questions()
        self._channel.abandon()
        return await asyncio.shield(self._require_task())

    def deliver_live_while(self, is_live: Callable[[], bool]) -> None:
        """Deliver text as it arrives only while somebody needs it, which costs less.

        While nobody does, the pieces of a reply are read together, about four times a second and at
        its end, and fewer and larger deltas are delivered.

        Args:
            is_live: returns whether somebody needs text as it arrives, at this moment; it must be fast.
        """
        self._channel.deliver_live_while(is_live)

    def leave_questions(self) -> None:
        """Answer no questions from this stream. It can still be read.

        If no handler answers a question, it is denied or the run is suspended, depending on the
        agent's `on_wait`.
        """
        self._questions.remove_reader()

    @overload
    def answer(self, to: Answer[A], /) -> Receipt: ...
    @overload
    def answer(self, to: Question[A], value: A, /) -> Receipt: ...
    def answer(self, to: Answer[A] | Question[A], value: object = None, /) -> Receipt:
        """Answer a question, from any task or thread, without waiting.

        Args:
            to: an addressed answer, such as `question.approve()`; or the question.
            value: the answer, when `to` is a question.

        Returns:
            A receipt that is true when the answer was accepted and otherwise holds the reason.

        Raises:
            AnswerTypeError: the question asks for another type; the question stays open.
            ConfigurationError: the edited arguments do not fit the tool; the question stays open.
        """
        return self._questions.answer(address_answer(to, value))

    def dismiss(self, question: AnyQuestion) -> Receipt:
        """Dismiss a question, which counts as the answer no; from any task or thread.

        Returns:
            A receipt that is true when the question was dismissed and otherwise holds the reason.

        Raises:
            ConfigurationError: `question` is not a question. Its key alone does not say which one.
        """
        check_value("question", question, Question)
        return self._questions.dismiss(question)

    async def wait_until_ended(self, question: AnyQuestion | str) -> None:
        """Wait until a question is no longer open, for example to close a dialog."""
        await self._questions.wait_until_ended(
            question if isinstance(question, str) else question.key
        )

    def cancel(self, *, by: str = "") -> None:
        """Cancel the run; its history records the operations that were attempted.

        A reader of the stream gets the remaining items and a plain end. `result` and `wait()` raise
        CancelledError.

        Args:
            by: who cancels it; it is saved.
        """
        self._shutdown.cancelled_by = by
        self._is_cancelled = True
        self._shutdown.is_asked = False
        self._require_task().cancel()

    async def cancel_after_writes(self, *, by: str = "", grace: NonNegativeFloat = 60.0) -> None:
        """Cancel the run once no writing tool is under way; return when it has ended.

        No other call begins, and calls of models and tools that only read are cut. Its history is as after
        `cancel`.

        Args:
            by: who cancels it; it is saved.
            grace: the longest time to wait for writing tools, in seconds.

        Raises:
            ConfigurationError: `grace` is not a number from 0.
        """
        check_value("grace", grace, NonNegativeFloat)
        task = self._require_task()
        if not self._is_cancelled:
            await self._shutdown.ask(grace)
            self._cancel_once(by)
        await asyncio.wait([task])

    def _cancel_once(self, by: str) -> None:
        """Cancel the run, unless it was cancelled or is to stay open meanwhile."""
        if not self._is_cancelled and not self._require_task().done():
            self.cancel(by=by)

    async def leave_open(self, *, grace: NonNegativeFloat = 60.0) -> None:
        """Stop here without closing the turn, for a process that ends; return when it has stopped.

        The journal is then as it would be after a crash, and `resume` or `recover` continues the turn.
        Calls of models and tools that only read are cut, and are made again. A writing tool under way
        is waited for, also if it was only saved as begun; one that does not end in time is in doubt.
        No other call begins. A reader of the stream gets the remaining items and a plain end.
        `result` and `wait()` raise CancelledError unless the turn has ended. Without a journal this
        is `cancel`.

        Args:
            grace: the longest time to wait for writing tools, in seconds.

        Raises:
            ConfigurationError: `grace` is not a number from 0.
        """
        check_value("grace", grace, NonNegativeFloat)
        task = self._require_task()
        if not self._is_cancelled:
            self._is_cancelled = True
            await self._shutdown.ask(grace)
            if not task.done():
                task.cancel()
        await asyncio.wait([task])

    @property
    def saved_before(self) -> int:
        """The number of records of the session before the first event here; 0 until the first item."""
        return self._channel.saved_before

    @property
    def result(self) -> Result[T]:
        """The result of the finished run; raises the error of the run.

        Raises:
            RuntimeError: the run is not finished.
        """
        task = self._require_task()
        if not task.done():
            raise RuntimeError("the run is not finished: read the stream to its end first")
        return task.result()
