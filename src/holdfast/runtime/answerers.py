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
from holdfast.core.requests import Answer, AnyRequest, checked
from holdfast.resilience.clock import Clock
from holdfast.runtime.asking import OnQuestion
from holdfast.runtime.notices import Channel
from holdfast.runtime.open_question import Ended, OpenQuestion, Party, Suspended

_log = logging.getLogger("holdfast")


class Answerers(Struct, frozen=True):
    """Who may answer one question.

    Args:
        handler: of the agent.
        channel: what is shown to the reader of the stream.
        watched: whether there is a reader, and so somebody who may answer.
        clock: how long they may take.
    """

    handler: OnQuestion | None
    channel: Channel | None
    watched: bool
    clock: Clock

    @property
    def parties(self) -> frozenset[Party]:
        """Those who are there."""
        there: set[Party] = set()
        if self.handler is not None:
            there.add("handler")
        if self.watched:
            there.add("reader")
        return frozenset(there)


async def answered(
    waiter: OpenQuestion, by: Answerers, seconds: float | None, until: float | None
) -> Ended | None:
    """How the question ended; None when nobody answered and whoever asks is to leave.

    Args:
        waiter: the question.
        by: who may answer it.
        seconds: how long it is held; None for ever.
        until: from when on an answer is too late, in seconds since the epoch; None is never.
    """
    left = None if until is None else until - by.clock.now()
    if left is not None and left <= 0:
        return "timeout"
    if not by.parties:
        waiter.desert()
        return await waiter.wait()
    if by.channel is not None:
        by.channel.publish(waiter.request)
    tasks: list[asyncio.Task[object]] = []
    if left is not None or seconds is not None:
        tasks.append(asyncio.create_task(_slept(by.clock, left or seconds or 0.0)))
        over = left is not None or not waiter.suspends
        tasks[-1].add_done_callback(partial(_ended if over else _held, waiter))
    if by.handler is not None:
        tasks.append(asyncio.create_task(_called(by.handler, waiter.request)))
        tasks[-1].add_done_callback(partial(_handled, waiter))
    if waiter.suspends and by.watched and by.channel is not None:
        tasks.append(asyncio.create_task(_seen(by.channel)))
        tasks[-1].add_done_callback(partial(_passed_by, waiter))
    try:
        return await waiter.wait()
    finally:
        for task in tasks:
            task.cancel()


async def _called(handler: OnQuestion, request: AnyRequest) -> object:
    return await handler(request)


async def _slept(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


async def _seen(channel: Channel) -> None:
    await channel.seen()


def _ended(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    """The time for an answer is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.settle("timeout")


def _held(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    """The time for which the run waits is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.desert()


def _passed_by(waiter: OpenQuestion, seen: asyncio.Task[object]) -> None:
    """The reader took the question, and asks for what comes next."""
    if not seen.cancelled():
        waiter.passes("reader")


def _handled(waiter: OpenQuestion, work: asyncio.Task[object]) -> None:
    """The handler came back."""
    if work.cancelled():
        if waiter.suspends:
            waiter.passes("handler")  # also when it was we who cancelled it, and left
        else:
            waiter.settle("cancelled")
    elif isinstance(error := work.exception(), Suspended):
        waiter.desert()
    elif error is not None:
        _log.error("the handler of questions failed on %s", waiter.request.key, exc_info=error)
        waiter.settle("failed")
    elif (given := work.result()) is not None:
        _take(waiter, given)
    else:
        waiter.passes("handler")


def _take(waiter: OpenQuestion, given: object) -> None:
    """The handler's answer, addressed or bare."""
    value = given.value if isinstance(given, Answer) else given
    try:
        checked(waiter.request, value)
    except AnswerTypeError as error:
        waiter.settle(error)
    else:
        waiter.settle(Answer(waiter.request.key, value))
