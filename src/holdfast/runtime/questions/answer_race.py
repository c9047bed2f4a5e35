"""Who may answer while a run waits: its handler, whoever reads its stream, and the clock.

The waiter decides which of them was first. Nothing of this module may be left behind when the
waiting is over.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from msgspec import Struct

from holdfast.core.errors import AnswerTypeError
from holdfast.core.questions import Answer, AnyQuestion, validate_answer
from holdfast.resilience.clock import Clock
from holdfast.runtime.channel import Channel
from holdfast.runtime.questions.open_question import OpenQuestion, Party, SettledOutcome, Suspended
from holdfast.runtime.questions.question_checks import OnQuestion

_log = logging.getLogger("holdfast")


class Answerers(Struct, frozen=True):
    """Who may answer one question.

    Args:
        handler: of the agent.
        channel: what is shown to the reader of the stream.
        has_reader: whether there is a reader, and so somebody who may answer.
        clock: how long they may take.
    """

    handler: OnQuestion | None
    channel: Channel | None
    has_reader: bool
    clock: Clock

    @property
    def parties(self) -> frozenset[Party]:
        """Those who are there."""
        there: set[Party] = set()
        if self.handler is not None:
            there.add("handler")
        if self.has_reader:
            there.add("reader")
        return frozenset(there)


async def wait_for_answer(
    waiter: OpenQuestion, answerers: Answerers, seconds: float | None, expires_at: float | None
) -> SettledOutcome | None:
    """How the question ended; None when nobody answered and whoever asks is to leave.

    Args:
        waiter: the question.
        answerers: who may answer it.
        seconds: how long it is held; None for ever.
        expires_at: from when on an answer is too late, in seconds since the epoch; None is never.
    """
    left = None if expires_at is None else expires_at - answerers.clock.now()
    if left is not None and left <= 0:
        return "timeout"
    if not answerers.parties:
        waiter.leave_unanswered()
        return await waiter.wait()
    if answerers.channel is not None:
        answerers.channel.publish(waiter.question)
    tasks: list[asyncio.Task[object]] = []
    if left is not None or seconds is not None:
        tasks.append(asyncio.create_task(_sleep_for(answerers.clock, left or seconds or 0.0)))
        over = left is not None or not waiter.suspends
        tasks[-1].add_done_callback(partial(_on_timeout if over else _on_hold_elapsed, waiter))
    if answerers.handler is not None:
        tasks.append(asyncio.create_task(_call_handler(answerers.handler, waiter.question)))
        tasks[-1].add_done_callback(partial(_on_handler_done, waiter))
    if waiter.suspends and answerers.has_reader and answerers.channel is not None:
        tasks.append(asyncio.create_task(_wait_until_seen(answerers.channel)))
        tasks[-1].add_done_callback(partial(_on_reader_passed, waiter))
    try:
        return await waiter.wait()
    finally:
        for task in tasks:
            task.cancel()


async def _call_handler(handler: OnQuestion, request: AnyQuestion) -> object:
    return await handler(request)


async def _sleep_for(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


async def _wait_until_seen(channel: Channel) -> None:
    await channel.wait_until_read()


def _on_timeout(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    """The time for an answer is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.settle("timeout")


def _on_hold_elapsed(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    """The time for which the run waits is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.leave_unanswered()


def _on_reader_passed(waiter: OpenQuestion, seen: asyncio.Task[object]) -> None:
    """The reader took the question, and asks for what comes next."""
    if not seen.cancelled():
        waiter.remove_party("reader")


def _on_handler_done(waiter: OpenQuestion, work: asyncio.Task[object]) -> None:
    """The handler came back."""
    if work.cancelled():
        if waiter.suspends:
            waiter.remove_party("handler")  # also when it was we who cancelled it, and left
        else:
            waiter.settle("cancelled")
    elif isinstance(error := work.exception(), Suspended):
        waiter.leave_unanswered()
    elif error is not None:
        _log.error("the handler of questions failed on %s", waiter.question.key, exc_info=error)
        waiter.settle("failed")
    elif (given := work.result()) is not None:
        _accept_answer(waiter, given)
    else:
        waiter.remove_party("handler")


def _accept_answer(waiter: OpenQuestion, answer: object) -> None:
    """The handler's answer, addressed or bare."""
    value = answer.value if isinstance(answer, Answer) else answer
    try:
        validate_answer(waiter.question, value)
    except AnswerTypeError as error:
        waiter.settle(error)
    else:
        waiter.settle(Answer(waiter.question.key, value))
