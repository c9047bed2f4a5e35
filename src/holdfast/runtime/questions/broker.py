"""The questions of one turn: asks them, accepts answers and saves the outcomes.

A question is registered before it is published, so that even an immediate answer finds it. The
first of answer, timeout and cancellation wins under one lock, from any thread; later answers get a
`Receipt` with the reason. The question handler, the reader of the stream and a timeout are awaited
together, and no task is left running when the wait is over. This module must not poll, and must never
treat a missing answer as a yes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.events import OnWait
from holdfast.core.question_log import asker_key, restore_question
from holdfast.core.questions import (
    Answer,
    AnyAnswer,
    AnyQuestion,
    Timeout,
    plain_form,
    restore_answer,
)
from holdfast.resilience.clock import Clock
from holdfast.resilience.timeout import pausable_timeout
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout
from holdfast.runtime.questions.open_question import (
    OpenQuestion,
    Party,
    QuestionOutcome,
    Receipt,
    SettledOutcome,
    Suspended,
    address_answer,
)
from holdfast.runtime.questions.question_checks import (
    AskedBy,
    OnQuestion,
    PendingQuestion,
    UsedKeys,
    add_description,
    assign_key,
    check_answer,
    check_can_ask,
)
from holdfast.runtime.questions.question_records import (
    AskingTurn,
    extend_limit,
    find_answerable,
    prepare_question,
    record_outcome,
    record_question,
)
from holdfast.runtime.turn_state.channel import Channel
from holdfast.tools.context import Asker

_HOOKS = 0
"""The number under which hooks ask; the attempts of a tool are numbered from 1."""

_log = logging.getLogger("holdfast")


class QuestionRelay(Protocol):
    """Passes a question to another run."""

    async def __call__(self, question: AnyQuestion, /, *, until: float | None) -> object:
        """Return the answer; `until` is when an answer is too late, in seconds since the epoch."""
        ...


class QuestionBroker(Struct, eq=False):
    """The questions of one turn. Answers may come from any thread.

    Args:
        handler: is called with each question; if it returns None, the reader may still answer.
        has_reader: whether somebody reads the stream and can answer.
        on_wait: whether a run without an answer is held or suspended.
        relay: passes each question to another run, which sets the time to wait, instead of a handler.
    """

    handler: OnQuestion | None = None
    has_reader: bool = False
    on_wait: OnWait = "hold"
    relay: QuestionRelay | None = None
    turn_timeout: PausableTimeout | None = None
    """The timeout of the turn, which is paused while a question is open."""
    _open_questions: dict[str, OpenQuestion] = {}
    _late_answers: dict[str, asyncio.Task[None]] = {}
    _other_loop_tasks: set[asyncio.Task[object] | None] = set()
    _used_keys: dict[tuple[str, int], UsedKeys] = {}
    _asking_count: int = 0
    _paused_since: float = 0.0

    def answer(self, answer: AnyAnswer) -> Receipt:
        """Accept an answer, from any thread. On AnswerTypeError the question stays open."""
        waiter = self._open_questions.get(answer.key)
        if waiter is None:
            return Receipt("unknown")
        accepted = check_answer(waiter.plan, waiter.question, answer)
        if isinstance(accepted, Receipt):
            return accepted
        return self._settle_question(waiter, accepted)

    def dismiss(self, question: AnyQuestion) -> Receipt:
        """End a question without an answer, from any thread."""
        waiter = self._open_questions.get(question.key)
        if waiter is None:
            return Receipt("unknown")
        if waiter.question.binding != question.binding:
            return Receipt("mismatch")
        return self._settle_question(waiter, "cancelled")

    def _settle_question(self, waiter: OpenQuestion, ending: QuestionOutcome) -> Receipt:
        if waiter.settle(ending):
            return Receipt()
        return Receipt("answered" if isinstance(waiter.outcome, Answer) else "late")

    async def deliver_answer(self, run: AskingTurn, answer: AnyAnswer) -> Receipt | None:
        """Accept an answer while the run is in progress, or return None when it no longer is.

        Raises:
            AnswerTypeError: the answer has the wrong type; the question stays open.
        """
        log, key = run.machine.questions, answer.key
        waiter = self._open_questions.get(key)
        if waiter is None:
            request = find_answerable(run.machine, run.run_id, key, run.plan.clock.now())
            if isinstance(request, Receipt):
                return request
            # The question is in the journal, and the suspended code has not asked it again yet.
            waiter = self._open_questions[key] = OpenQuestion(request, run.plan, suspends=True)
            self._late_answers[key] = asyncio.create_task(self._record_late_answer(run, waiter))
        if waiter.outcome == "closed":
            return None
        receipt = self.answer(answer)
        keeping = self._late_answers.get(key)
        if not receipt or keeping is None:
            return receipt
        await asyncio.wait([keeping])
        if not keeping.cancelled():
            keeping.result()
        return Receipt() if key in log.outcomes else Receipt("late")

    async def wait_until_ended(self, key: str) -> None:
        """Wait until nobody waits for the answer any more; return at once if the key is unknown."""
        waiter = self._open_questions.get(key)
        if waiter is not None:
            await waiter.wait()

    def remove_reader(self) -> None:
        """Note that nobody reads the stream any more: only the handler can answer from now on."""
        self.has_reader = False
        for waiter in list(self._open_questions.values()):
            waiter.remove_party("reader")

    def make_tool_asker(self, run: AskingTurn) -> Asker:
        """Make the object with which tools ask; each attempt finds the answers of earlier ones."""
        return TurnAsker(self, run, hook=False)

    def make_hook_asker(self, run: AskingTurn) -> Asker:
        """Make the object with which hooks ask."""
        return TurnAsker(self, run, hook=True)

    async def ask_for(
        self, run: AskingTurn, who: tuple[str, int, bool], question: AnyQuestion, timeout: Timeout
    ) -> object:
        """Ask one question for `who`: a scope, its attempt, and whether a hook asks."""
        scope, attempt, hook = who
        check_can_ask(run.machine, scope, question, timeout)
        question = add_description(run.plan.registry, question)
        # A tool must not get an answer to a hook, nor a hook one to the tool. Each attempt of a tool
        # gets the answers to the attempts before it.
        used = self._used_keys.setdefault((scope, _HOOKS if hook else attempt), UsedKeys())
        asker = AskedBy(scope, hook, used)
        event = assign_key(run.machine, asker, question, self._open_questions)
        # A hook that asks after its effect was called is not suspended: the effect would repeat.
        done = hook and run.effects[scope].is_called
        wait: OnWait = "hold" if done else self.on_wait
        event = msgspec.structs.replace(event, wait=wait, before_effect=hook and not done)
        return await self._find_or_ask(run, prepare_question(run, question, event, timeout))

    async def ask_from_other_loop(self, answer: Awaitable[object]) -> object:
        """Await an answer for a caller on another event loop; `close` cancels the wait."""
        this = asyncio.current_task()
        self._other_loop_tasks.add(this)
        try:
            return await answer
        finally:
            self._other_loop_tasks.discard(this)

    def forget_scope(self, scope: str) -> None:
        """Free the keys of a scope that starts again, because it asks the same questions again."""
        for who in [who for who in self._used_keys if who[0] == scope]:
            del self._used_keys[who]

    async def collect_late_answers(self) -> None:
        """Save the answers that came after their asker was suspended.

        If there are none, accept no more of them.
        """
        given = [key for key in self._late_answers if self._open_questions[key].outcome is not None]
        if not given:
            given = list(self._late_answers)
            for key in given:
                self._open_questions[key].settle("closed")
        await asyncio.gather(*(self._late_answers.pop(key) for key in given))

    async def close(self) -> None:
        """Cancel the tasks of the questions when the run is no longer in progress."""
        if not self._late_answers and not self._other_loop_tasks:
            return
        keeping: list[asyncio.Task[Any]] = [
            *self._late_answers.values(),
            *filter(None, self._other_loop_tasks),
        ]
        if not keeping:
            return
        for key in self._late_answers:
            self._open_questions[key].settle("closed")
        self._late_answers.clear()
        for task in keeping:
            task.cancel()
        await asyncio.wait(keeping)

    async def _find_or_ask(self, run: AskingTurn, asking: PendingQuestion) -> object:
        """Return the saved answer to a question, or ask it."""
        request = asking.question
        if request.key in self._late_answers:
            self._open_questions[request.key].settle("closed")
            await self._late_answers.pop(request.key)
        kept = run.machine.questions.outcomes.get(request.key)
        why = None if kept is None else kept.why_unanswered(run.plan.clock.now())
        if kept is None:
            value = await self._ask_and_record(run, asking)
        elif why is not None:
            value = request.default_answer(why)
        else:
            value = restore_answer(request, kept.answer)
        # Also for a saved answer: the process may have ended before the extension was saved.
        await extend_limit(run, request, value)
        return value

    async def _ask_and_record(self, run: AskingTurn, asking: PendingQuestion) -> object:
        """Ask, and save the outcome."""
        request = asking.question
        outcome = await self._wait_for_outcome(run, asking)
        if outcome is None:
            waiter = self._open_questions[request.key]
            self._late_answers[request.key] = asyncio.create_task(
                self._record_late_answer(run, waiter)
            )
            raise Suspended(frozenset({request.key}))
        await record_outcome(run, request.key, outcome)
        if isinstance(outcome, AnswerTypeError):
            raise outcome
        if isinstance(outcome, Answer):
            # Restored, so that the first run and a replay give the same object.
            return restore_answer(request, plain_form(outcome.value))
        return request.default_answer(outcome)

    async def _record_late_answer(self, run: AskingTurn, waiter: OpenQuestion) -> None:
        """Save an answer that comes after the asker was suspended, while the run is in progress."""
        outcome = await waiter.wait_settled()
        if outcome is not None and outcome != "closed":
            await record_outcome(run, waiter.question.key, outcome, later=True)

    async def _wait_for_outcome(
        self, run: AskingTurn, asking: PendingQuestion
    ) -> QuestionOutcome | None:
        request = asking.question
        handler = self.handler
        if self.relay is not None:
            handler = partial(self.relay, until=asking.event.until)
        by = Answerers(handler, run.context.channel, self.has_reader, run.plan.clock)
        waiter = OpenQuestion(request, run.plan, by.parties, suspends=asking.suspends)
        self._open_questions[request.key] = waiter
        leaves = False
        try:
            # The timeout of a hook starts at its first await, and only then can it be paused.
            await asyncio.sleep(0)
            with pausable_timeout.pause_timeout(), self._pause_turn(run):
                await record_question(run, asking)
                seconds = None if self.relay and asking.suspends else asking.hold_seconds
                by = msgspec.structs.replace(by, has_reader=self.has_reader)
                outcome = await wait_for_answer(waiter, by, seconds, asking.event.until)
            leaves = outcome is None
            return "cancelled" if outcome == "closed" else outcome
        finally:
            if not leaves:
                waiter.settle("cancelled")

    @contextmanager
    def _pause_turn(self, run: AskingTurn) -> Iterator[None]:
        """Exclude the time in which a question is open from the time limit of the turn."""
        clock = run.plan.clock
        if not self._asking_count:
            self._paused_since = clock.monotonic()
        self._asking_count += 1
        try:
            with self.turn_timeout.pause() if self.turn_timeout is not None else nullcontext():
                yield
        finally:
            self._asking_count -= 1
            if not self._asking_count and run.deadline is not None:
                run.deadline += clock.monotonic() - self._paused_since


class TurnAsker(Struct, eq=False):
    """Asks questions for the effects of one turn, from any event loop.

    Args:
        questions: the broker of the turn.
        run: the turn.
        hook: whether hooks ask, instead of tools.
    """

    questions: QuestionBroker
    run: AskingTurn
    hook: bool

    async def __call__(
        self, scope: str, attempt: int, request: AnyQuestion, timeout: Timeout
    ) -> object:
        """Ask and return the answer. Raises Suspended when the run does not wait for it."""
        who = (scope, attempt, self.hook)
        answer = self.questions.ask_for(self.run, who, request, timeout)
        home = self.run.loop
        if asyncio.get_running_loop() is home:
            return await answer
        # A synchronous tool runs in a thread and asks from an event loop of its own.
        elsewhere = self.questions.ask_from_other_loop(answer)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(elsewhere, home))

    def find_asked(self, scope: str) -> list[AnyQuestion]:
        """Return the questions that a tool asked before, with the key of its call, in order."""
        found = [
            restore_question(event, self.run.run_id)
            for key, event in self.run.machine.questions.questions.items()
            if asker_key(key) == scope and event.by_hook is self.hook and not event.origin
        ]
        # Without the key and the binding, to ask one again finds the saved one.
        return [msgspec.structs.replace(one, key="", binding="") for one in found]


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
    """Use the outcome of the question handler."""
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
