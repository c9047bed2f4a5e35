"""Questions of one turn: who waits for an answer, and who may give it.

The waiter is there before the question is shown, so that no answer is too fast. The first of
answer, timeout and cancellation wins under one lock, whatever thread it comes from; the others are
told that they came too late. Nothing here may poll, and no silence may count as a yes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias, cast

import msgspec

from holdfast.core.effects import extended_key
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.events import (
    Event,
    LimitExtended,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
)
from holdfast.core.limits import check_seconds
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import ask_key, asked_key
from holdfast.core.requests import (
    NO_DESCRIPTION,
    Answer,
    AnyAnswer,
    AnyRequest,
    ContinuationRequest,
    Continued,
    PermissionRequest,
    Request,
    checked,
    plain_form,
    restored,
)
from holdfast.core.run_state import Phase
from holdfast.resilience import patience
from holdfast.resilience.clock import Clock
from holdfast.resilience.patience import Patience
from holdfast.runtime.notices import Channel
from holdfast.runtime.open_question import Ending, OpenQuestion, Receipt
from holdfast.runtime.plan import Plan
from holdfast.tools.context import Asker

_log = logging.getLogger("holdfast")

OnQuestion: TypeAlias = Callable[[AnyRequest], Awaitable[object]]
"""Gives an answer, or None to leave the question to others."""


class AskingTurn(Protocol):
    """What a question needs of the turn that asks it."""

    machine: RunMachine
    plan: Plan
    channel: Channel | None
    deadline: float | None

    async def commit(self, event: Event) -> None:
        """Keep a fact."""
        ...


class Questions:
    """The questions of one turn, for all threads.

    Args:
        handler: asked about each question; its None leaves the question to whoever watches.
        watched: whether somebody reads the stream, and so can answer.
    """

    __slots__ = ("_asking", "_since", "_taken", "_waiters", "handler", "patience", "watched")

    def __init__(self, handler: OnQuestion | None = None, *, watched: bool = False) -> None:
        self.handler = handler
        self.watched = watched
        self.patience: Patience | None = None
        """The limit of the turn, which stands still while somebody is asked."""
        self._waiters: dict[str, OpenQuestion] = {}
        self._taken: dict[tuple[str, int], set[str]] = {}
        self._asking = 0
        self._since = 0.0

    def answer(self, answer: AnyAnswer) -> Receipt:
        """Take an answer, from any thread. Raises AnswerTypeError, and the question stays open."""
        waiter = self._waiters.get(answer.key)
        if waiter is None:
            return Receipt("unknown")
        checked(waiter.request, answer.value)
        if waiter.settle(answer):
            return Receipt()
        return Receipt("answered" if isinstance(waiter.outcome, Answer) else "late")

    def dismiss(self, key: str) -> Receipt:
        """End a question without an answer, from any thread."""
        waiter = self._waiters.get(key)
        if waiter is None:
            return Receipt("unknown")
        if waiter.settle("cancelled"):
            return Receipt()
        return Receipt("answered" if isinstance(waiter.outcome, Answer) else "late")

    async def ended(self, key: str) -> None:
        """Return when the question waits no more; at once for an unknown one."""
        waiter = self._waiters.get(key)
        if waiter is not None:
            await waiter.wait()

    def unwatch(self) -> None:
        """Nobody reads the stream any more: what no handler is asked about has no answer."""
        self.watched = False
        if self.handler is None:
            for waiter in list(self._waiters.values()):
                waiter.settle("nobody")

    def of_attempts(self, run: AskingTurn) -> Asker:
        """What tools and hooks ask with: each attempt finds the answers of those before."""

        async def ask(
            scope: str, attempt: int, request: AnyRequest, timeout: float | None
        ) -> object:
            taken = self._taken.setdefault((scope, attempt), set())
            return await self._ask(run, scope, taken, (request, timeout))

        return ask

    async def _ask(
        self, run: AskingTurn, scope: str, taken: set[str], what: tuple[AnyRequest, float | None]
    ) -> object:
        request, timeout = what
        _check(request, timeout)
        if run.machine.phase not in (Phase.MODEL, Phase.TOOLS):
            raise ConfigurationError(
                "ask",
                f"{scope} is not within a turn, and a question belongs to one",
                fix="Ask in a hook of an iteration or of a tool, or in a tool",
            )
        request = _described(run, request)
        plain = plain_form(msgspec.structs.replace(request, key=""))
        key = _key_for(run, scope, taken, (type(request).__name__, plain))
        taken.add(key)
        request = msgspec.structs.replace(request, key=key)
        kept = run.machine.questions.ended.get(key)
        if kept is None:
            value = await self._fresh(run, request, plain, timeout)
        elif kept.why is not None:
            value = request.unanswered(kept.why)
        else:
            value = restored(request, kept.answer)
        # Also for a kept answer: the run may have died between the answer and the extension.
        await _extend(run, request, value)
        return value

    async def _fresh(
        self, run: AskingTurn, request: AnyRequest, plain: object, timeout: float | None
    ) -> object:
        """Ask, and keep how it ended."""
        outcome = await self._outcome(run, request, plain, timeout)
        key, at = request.key, run.plan.clock.now()
        if isinstance(outcome, AnswerTypeError):
            await run.commit(QuestionUnanswered(key, at, "failed"))
            raise outcome
        if isinstance(outcome, Answer):
            value = plain_form(outcome.value)
            await run.commit(QuestionAnswered(key, at, value))
            # Restored, so that the first run and a replay give the same object.
            return restored(request, value)
        await run.commit(QuestionUnanswered(key, at, outcome))
        return request.unanswered(outcome)

    async def _outcome(
        self, run: AskingTurn, request: AnyRequest, plain: object, timeout: float | None
    ) -> Ending:
        waiter = self._waiters[request.key] = OpenQuestion(request)
        try:
            # The limit of a hook begins with its first wait: only then can it be paused.
            await asyncio.sleep(0)
            with patience.paused(), self._pausing(run):
                if request.key not in run.machine.questions.asked:
                    key, kind = asked_key(request.key), type(request).__name__
                    await run.commit(QuestionAsked(key, run.plan.clock.now(), kind, plain))
                if not self.watched and self.handler is None:
                    return "nobody"
                return await self._wait(run, waiter, timeout)
        finally:
            waiter.settle("cancelled")

    async def _wait(self, run: AskingTurn, waiter: OpenQuestion, timeout: float | None) -> Ending:
        if run.channel is not None:
            run.channel.publish(waiter.request)
        tasks: list[asyncio.Task[object]] = []
        if timeout is not None:
            tasks.append(asyncio.create_task(_slept(run.plan.clock, timeout)))
            tasks[-1].add_done_callback(partial(_timed_out, waiter))
        if self.handler is not None:
            tasks.append(asyncio.create_task(_called(self.handler, waiter.request)))
            tasks[-1].add_done_callback(partial(self._handled, waiter))
        try:
            return await waiter.wait()
        finally:
            for task in tasks:
                task.cancel()

    @contextmanager
    def _pausing(self, run: AskingTurn) -> Iterator[None]:
        """Let the time in which somebody is asked not count for the turn."""
        clock = run.plan.clock
        if not self._asking:
            self._since = clock.monotonic()
        self._asking += 1
        try:
            with self.patience.paused() if self.patience is not None else nullcontext():
                yield
        finally:
            self._asking -= 1
            if not self._asking and run.deadline is not None:
                run.deadline += clock.monotonic() - self._since

    def _handled(self, waiter: OpenQuestion, work: asyncio.Task[object]) -> None:
        """The handler came back."""
        if work.cancelled():
            waiter.settle("cancelled")
        elif (error := work.exception()) is not None:
            _log.error("the handler of questions failed on %s", waiter.request.key, exc_info=error)
            waiter.settle("failed")
        elif (given := work.result()) is not None:
            self._given(waiter, given)
        elif not self.watched:
            waiter.settle("nobody")

    def _given(self, waiter: OpenQuestion, given: object) -> None:
        """The handler's answer, addressed or bare."""
        value = given.value if isinstance(given, Answer) else given
        try:
            checked(waiter.request, value)
        except AnswerTypeError as error:
            waiter.settle(error)
        else:
            waiter.settle(Answer(waiter.request.key, value))


def checked_handler(handler: object) -> OnQuestion | None:
    """The handler, if it is an async callable. Raises ConfigurationError."""
    if handler is None:
        return None
    call = getattr(type(handler), "__call__", None)  # noqa: B004  # REASON: its kind is asked
    if not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)):
        raise ConfigurationError(
            "on_question",
            f"must be an async function, got {type(handler).__name__}",
            fix="Write `async def answer(request): ...` and return an answer or None",
        )
    return cast("OnQuestion", handler)


async def _called(handler: OnQuestion, request: AnyRequest) -> object:
    return await handler(request)


async def _slept(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


def _timed_out(waiter: OpenQuestion, timer: asyncio.Task[object]) -> None:
    if not timer.cancelled() and timer.exception() is None:
        waiter.settle("timeout")


def _check(request: object, timeout: float | None) -> None:
    if not isinstance(request, Request):
        raise ConfigurationError(
            "request",
            f"must be a Request, got {type(request).__name__}",
            fix="Use PermissionRequest, ClarificationRequest or a class of your own",
        )
    check_seconds("timeout", timeout)


def _described(run: AskingTurn, request: AnyRequest) -> AnyRequest:
    """The request with what the tool says of itself, where nothing else is said."""
    if isinstance(request, PermissionRequest) and request.description == NO_DESCRIPTION:
        tool = run.plan.registry.get(request.tool)
        if tool is not None and tool.description:
            return msgspec.structs.replace(request, description=tool.description)
    return request


async def _extend(run: AskingTurn, request: AnyRequest, answer: object) -> None:
    """A yes to going on extends the limit, once."""
    machine = run.machine
    if not isinstance(request, ContinuationRequest) or not isinstance(answer, Continued):
        return
    if machine.phase is Phase.MODEL and machine.over_limit:
        key = extended_key(machine.turn, machine.iteration)
        more = answer.iterations or request.extension
        await run.commit(LimitExtended(key, run.plan.clock.now(), more))


def _key_for(run: AskingTurn, scope: str, taken: set[str], what: tuple[str, object]) -> str:
    """The first key that is free, or that was asked this very same thing.

    So a kept answer is never used for another question: a yes to 10 euros is none to 1000.
    """
    asked = run.machine.questions.asked
    for number in count():
        key = ask_key(scope, number)
        if key in taken:
            continue
        before = asked.get(key)
        if before is None or (before.kind, before.request) == what:
            return key
    raise AssertionError("unreachable")
