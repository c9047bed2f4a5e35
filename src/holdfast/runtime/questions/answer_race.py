"""Waiting for an answer from the question handler, the reader of the stream, or a timeout.

The `OpenQuestion` decides which of them was first. This module must not leave a task running when
the wait is over.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from msgspec import Struct

from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.questions import Answer, AnyQuestion
from holdfast.resilience.clock import Clock
from holdfast.runtime.questions.answer_checks import check_answer
from holdfast.runtime.questions.open_question import (
    OpenQuestion,
    Party,
    Receipt,
    SettledOutcome,
    Suspended,
    address_answer,
)
from holdfast.runtime.questions.question_checks import OnQuestion
from holdfast.runtime.turn_state.channel import Channel

_log = logging.getLogger("holdfast")


class Answerers(Struct, frozen=True):
    """Who may answer one question.

    Args:
        handler: the question handler of the agent, if it has one.
        channel: the channel to the reader of the stream.
        has_reader: whether somebody reads the stream and can answer.
        clock: measures the time to wait.
    """

    handler: OnQuestion | None
    channel: Channel | None
    has_reader: bool
    clock: Clock

    @property
    def parties(self) -> frozenset[Party]:
        """The parties that can answer."""
        there: set[Party] = set()
        if self.handler is not None:
            there.add("handler")
        if self.has_reader:
            there.add("reader")
        return frozenset(there)


async def wait_for_answer(
    waiter: OpenQuestion, answerers: Answerers, seconds: float | None, expires_at: float | None
) -> SettledOutcome | None:
    """Wait for the outcome of a question.

    Returns None when nobody has answered and the caller is to be suspended.

    Args:
        waiter: the question.
        answerers: who may answer it.
        seconds: how long to hold the question; None means without a limit.
        expires_at: the time after which an answer is too late, in seconds since the epoch; None
            means never.
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
    """End the question: the time for an answer is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.settle("timeout")


def _on_hold_elapsed(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    """Stop holding the question: the time for which the run waits is over."""
    if not timer.cancelled() and timer.exception() is None:
        waiter.leave_unanswered()


def _on_reader_passed(waiter: OpenQuestion, seen: asyncio.Task[object]) -> None:
    """Remove the reader: it took the question and reads the next item without answering."""
    if not seen.cancelled():
        waiter.remove_party("reader")


def _on_handler_done(waiter: OpenQuestion, work: asyncio.Task[object]) -> None:
    """Use what the question handler returned or raised."""
    if work.cancelled():
        if waiter.suspends:
            waiter.remove_party("handler")  # also after `wait_for_answer` has cancelled it
        else:
            waiter.settle("cancelled")
        return
    error = work.exception()
    if isinstance(error, Suspended):
        waiter.leave_unanswered()
    elif error is not None:
        shown = detach_for_log(error, waiter.plan.secrets)
        _log.error("the handler of questions failed on %s", waiter.question.key, exc_info=shown)
        waiter.settle("failed")
    elif work.result() is not None:
        _accept_answer(waiter, work.result())
    else:
        waiter.remove_party("handler")


def _accept_answer(waiter: OpenQuestion, given: object) -> None:
    """Settle the question with the handler's result: an `Answer`, or only its value."""
    question = waiter.question
    answer = given if isinstance(given, Answer) else address_answer(question, given)
    try:
        accepted = check_answer(waiter.plan, question, answer)
    except AnswerTypeError as error:
        waiter.settle(error)
    except ConfigurationError as error:
        _log.error("the handler of questions cannot answer %s: %s", question.key, error)
        waiter.settle("failed")
    else:
        if isinstance(accepted, Receipt):
            _log.error("the handler of questions gave no answer to %s: %s", question.key, accepted)
            waiter.settle("failed" if accepted.reason == "mismatch" else "expired")
        else:
            waiter.settle(accepted)
