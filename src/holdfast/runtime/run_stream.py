"""A run that is watched: events and notices as they come, and the result at the end.

Leaving the `async with` block early cancels the run and waits until nothing of it is left. This
class must never change what a run does: it looks, and it hands in answers to what the run asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar, overload

from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelReplied
from holdfast.core.model_request import OutputSchema
from holdfast.core.questions import Answer, AnyQuestion, Question
from holdfast.runtime.channel import Channel
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.open_question import Receipt, address_answer
from holdfast.runtime.result import Result

T = TypeVar("T")
A = TypeVar("A")


class RunStream(Generic[T]):
    """What `agent.stream(...)` and `agent.resume_stream(...)` return; use it with `async with`.

    Args:
        start: begins the run with the channel to publish to, and gives its result.
        questions: where answers go.
        output: what is wanted of the answer; None for text.
    """

    __slots__ = ("_channel", "_output", "_questions", "_start", "_task")

    def __init__(
        self,
        start: Callable[[Channel], Awaitable[Result[T]]],
        questions: QuestionBroker,
        output: OutputSchema | None = None,
    ) -> None:
        self._output = output
        self._start = start
        self._questions = questions
        self._channel = Channel()
        self._task: asyncio.Task[Result[T]] | None = None

    async def __aenter__(self) -> RunStream[T]:
        if self._task is not None:
            raise RuntimeError("a stream runs once: ask the agent for another one")
        self._task = asyncio.create_task(self._run_turn(), name="holdfast-run")
        # Not by the work itself: a task that is cancelled before its first step never begins it.
        self._task.add_done_callback(self._close_channel)
        return self

    async def _run_turn(self) -> Result[T]:
        return await self._start(self._channel)

    def _close_channel(self, _task: asyncio.Task[Result[T]]) -> None:
        self._channel.close()

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
        if not task.cancelled():
            task.exception()  # looked at, so that an unread failure is not reported as lost

    def _require_task(self) -> asyncio.Task[Result[T]]:
        if self._task is None:
            raise RuntimeError("use the stream inside `async with ... as run`")
        return self._task

    def __aiter__(self) -> Channel:
        self._require_task()
        return self._channel

    async def text(self, *, live: bool = False) -> AsyncIterator[str]:
        """The text of the answers: of whole replies, or live as it is written.

        Args:
            live: yield text while it comes; text of an attempt that fails later is included.
        """
        async for item in self:
            if live and type(item) is TextDelta:
                yield item.text
            elif not live and isinstance(item, ModelReplied) and item.reply.text:
                yield item.reply.text

    async def partials(self) -> AsyncIterator[object]:
        """What there is of a typed answer while it is written: dicts and lists, never checked.

        For previews only. Each is the same object, grown: copy it to keep it. A text that is long
        already grows in larger pieces. None says that what was shown is void: the attempt failed,
        or the answer did not fit and is written anew.

        Raises:
            ConfigurationError: the agent has no output type.
        """
        if self._output is None:
            raise ConfigurationError(
                "output", "the answer is text, which has no parts", fix="Use run.text(live=True)"
            )
        from holdfast.runtime.output.partials import Partials  # only who looks pays for it

        preview = Partials(self._output)
        async for item in self:
            if preview.feed(item):
                yield preview.value

    async def wait(self) -> Result[T]:
        """Let the run finish, and give its result; raises what the run raised.

        Nobody sees the questions from now on: those that no handler answers are denied, or the run
        is suspended, as the agent's `on_wait` says.
        """
        self._questions.remove_reader()
        self._channel.abandon()
        return await asyncio.shield(self._require_task())

    @overload
    def answer(self, to: Answer[A], /) -> Receipt: ...
    @overload
    def answer(self, to: Question[A], value: A, /) -> Receipt: ...
    @overload
    def answer(self, to: str, value: object, /) -> Receipt: ...
    def answer(self, to: Answer[A] | Question[A] | str, value: object = None, /) -> Receipt:
        """Hand in an answer, from any task or thread; never waits.

        Args:
            to: an addressed answer, such as `request.approve()`; or the request, or its key.
            value: the answer, when `to` is a request or a key.

        Returns:
            Something true when the answer was taken, and otherwise the reason why it was not.

        Raises:
            AnswerTypeError: the question asks for another type; it stays open.
        """
        return self._questions.answer(address_answer(to, value))

    def dismiss(self, question: AnyQuestion | str) -> Receipt:
        """Leave a question without an answer, which counts as no; from any task or thread."""
        return self._questions.dismiss(question if isinstance(question, str) else question.key)

    async def wait_until_ended(self, question: AnyQuestion | str) -> None:
        """Wait until a question waits no more, however it ended: to close a dialog, say."""
        await self._questions.wait_until_ended(
            question if isinstance(question, str) else question.key
        )

    def cancel(self) -> None:
        """Ask the run to stop; its history will tell what was attempted."""
        self._require_task().cancel()

    @property
    def result(self) -> Result[T]:
        """The result of the finished run; raises what the run raised."""
        task = self._require_task()
        if not task.done():
            raise RuntimeError("the run is not finished: read the stream to its end first")
        return task.result()
