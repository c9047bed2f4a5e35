"""Questions of one turn: who waits for an answer, and who may give it.

The waiter is there before the question is shown, so that no answer is too fast. The first of
answer, timeout and cancellation wins under one lock, whatever thread it comes from; the others are
told that they came too late. Nothing here may poll, and no silence may count as a yes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Literal, Protocol

from holdfast.core.effects import extended_key
from holdfast.core.errors import AnswerTypeError
from holdfast.core.events import (
    Event,
    LimitExtended,
    OnWait,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
)
from holdfast.core.kept_request import kept_request
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import asked_key
from holdfast.core.requests import (
    Answer,
    AnyAnswer,
    AnyRequest,
    ContinuationRequest,
    Continued,
    Timeout,
    checked,
    plain_form,
    restored,
)
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal
from holdfast.resilience import patience
from holdfast.resilience.clock import Clock
from holdfast.resilience.patience import Patience
from holdfast.runtime.asking import Asking, OnQuestion, check_asked, described, keyed
from holdfast.runtime.notices import Channel
from holdfast.runtime.open_question import Ending, OpenQuestion, Party, Receipt, Suspended
from holdfast.runtime.plan import Plan
from holdfast.tools.context import Asker

_log = logging.getLogger("holdfast")


class AskingTurn(Protocol):
    """What a question needs of the turn that asks it."""

    machine: RunMachine
    plan: Plan
    channel: Channel | None
    deadline: float | None
    acted: set[str]
    run_id: str
    beside: Journal | None

    async def commit(self, event: Event) -> None:
        """Keep a fact."""
        ...


class Questions:
    """The questions of one turn, for all threads.

    Args:
        handler: asked about each question; its None leaves the question to whoever watches.
        watched: whether somebody reads the stream, and so can answer.
        on_wait: what becomes of a run while nobody has answered.
        within: whether the handler asks another run, which knows how long to wait.
    """

    __slots__ = (
        "_asking",
        "_elsewhere",
        "_left",
        "_since",
        "_taken",
        "_waiters",
        "handler",
        "on_wait",
        "patience",
        "watched",
        "within",
    )

    def __init__(
        self,
        handler: OnQuestion | None = None,
        *,
        watched: bool = False,
        on_wait: OnWait = "hold",
        within: bool = False,
    ) -> None:
        self.handler = handler
        self.watched = watched
        self.on_wait: OnWait = on_wait
        self.within = within
        self.patience: Patience | None = None
        """The limit of the turn, which stands still while somebody is asked."""
        self._waiters: dict[str, OpenQuestion] = {}
        self._left: dict[str, asyncio.Task[None]] = {}
        self._elsewhere: set[Future[object]] = set()
        self._taken: dict[tuple[str, int], set[str]] = {}
        self._asking = 0
        self._since = 0.0

    def answer(self, answer: AnyAnswer) -> Receipt:
        """Take an answer, from any thread. Raises AnswerTypeError, and the question stays open."""
        waiter = self._waiters.get(answer.key)
        if waiter is None:
            return Receipt("unknown")
        checked(waiter.request, answer.value)
        return self._settled(waiter, answer)

    def dismiss(self, key: str) -> Receipt:
        """End a question without an answer, from any thread."""
        waiter = self._waiters.get(key)
        return Receipt("unknown") if waiter is None else self._settled(waiter, "cancelled")

    def _settled(self, waiter: OpenQuestion, ending: Ending) -> Receipt:
        if waiter.settle(ending):
            return Receipt()
        return Receipt("answered" if isinstance(waiter.outcome, Answer) else "late")

    async def give(self, run: AskingTurn, answer: AnyAnswer) -> Receipt | None:
        """Take an answer while the run is under way; None when it rests by now.

        Raises:
            AnswerTypeError: it is of another type, and the question stays open.
        """
        log, key = run.machine.questions, answer.key
        waiter = self._waiters.get(key)
        if waiter is None:
            asked = next((one for one in log.open if one.key == asked_key(key)), None)
            if asked is None:
                return receipt_for(run.machine, key)
            # It is kept by the run, and whoever asked it has not come to ask again.
            waiter = self._waiters[key] = OpenQuestion(kept_request(asked), suspends=True)
            self._left[key] = asyncio.create_task(self._keep(run, waiter))
        if waiter.outcome == "closed":
            return None
        receipt = self.answer(answer)
        keeping = self._left.get(key)
        if not receipt or keeping is None:
            return receipt
        await asyncio.wait([keeping])
        if not keeping.cancelled():
            keeping.result()
        return Receipt() if key in log.ended else Receipt("late")

    async def ended(self, key: str) -> None:
        """Return when nobody waits for an answer any more; at once for an unknown question."""
        waiter = self._waiters.get(key)
        if waiter is not None:
            await waiter.wait()

    def unwatch(self) -> None:
        """Nobody reads the stream any more: what no handler is asked about has no answer."""
        self.watched = False
        for waiter in list(self._waiters.values()):
            waiter.passes("reader")

    def of_attempts(self, run: AskingTurn) -> Asker:
        """What tools ask with: each attempt finds the answers of those before."""
        return TurnAsker(self, run, hook=False)

    def of_hooks(self, run: AskingTurn) -> Asker:
        """What hooks ask with."""
        return TurnAsker(self, run, hook=True)

    async def ask_for(
        self, run: AskingTurn, who: tuple[str, int, bool], request: AnyRequest, timeout: Timeout
    ) -> object:
        """The answer to one question of `who`: a scope, its attempt, and whether it is a hook."""
        scope, attempt, hook = who
        taken = self._taken.setdefault((scope, attempt), set())
        return await self._ask(run, (scope, hook), taken, (request, timeout))

    def from_elsewhere(self, there: Future[object]) -> None:
        """Somebody asks from another loop, and is not to be left there when the run ends."""
        self._elsewhere.add(there)
        there.add_done_callback(self._elsewhere.discard)

    def forget(self, scope: str) -> None:
        """Whoever asked begins again, and asks the same questions again."""
        for who in [who for who in self._taken if who[0] == scope]:
            del self._taken[who]

    async def rest(self) -> None:
        """The last moment for answers to those who left: they are kept, or taken no more."""
        given = [key for key in self._left if self._waiters[key].outcome is not None]
        if not given:
            given = list(self._left)
            for key in given:
                self._waiters[key].settle("closed")
        await asyncio.gather(*(self._left.pop(key) for key in given))

    async def close(self) -> None:
        """The run is not under way any more: leave no task behind."""
        for there in list(self._elsewhere):
            there.cancel()
        keeping = list(self._left.values())
        for key in self._left:
            self._waiters[key].settle("closed")
        self._left.clear()
        for task in keeping:
            task.cancel()
        if keeping:
            await asyncio.wait(keeping)

    async def _ask(
        self,
        run: AskingTurn,
        who: tuple[str, bool],
        taken: set[str],
        what: tuple[AnyRequest, Timeout],
    ) -> object:
        (scope, hook), (request, timeout) = who, what
        check_asked(run.machine, scope, request, timeout)
        request, plain = keyed(run.machine, scope, taken, described(run.plan.registry, request))
        # What was done before a hook asks would be done again, if it left now.
        done = hook and scope in run.acted
        suspends = self.on_wait == "suspend" and not done
        asking = Asking(request, plain, timeout, suspends, hook and not done)
        if request.key in self._left:
            self._waiters[request.key].settle("closed")
            await self._left.pop(request.key)
        kept = run.machine.questions.ended.get(request.key)
        if kept is None:
            value = await self._fresh(run, asking)
        elif kept.why is not None:
            value = request.unanswered(kept.why)
        else:
            value = restored(request, kept.answer)
        # Also for a kept answer: the run may have died between the answer and the extension.
        await _extend(run, request, value)
        return value

    async def _fresh(self, run: AskingTurn, asking: Asking) -> object:
        """Ask, and keep how it ended."""
        request = asking.request
        outcome = await self._outcome(run, asking)
        if outcome is None:
            waiter = self._waiters[request.key]
            self._left[request.key] = asyncio.create_task(self._keep(run, waiter))
            raise Suspended(frozenset({request.key}))
        await run.commit(_end(run, request.key, outcome))
        if isinstance(outcome, AnswerTypeError):
            raise outcome
        if isinstance(outcome, Answer):
            # Restored, so that the first run and a replay give the same object.
            return restored(request, plain_form(outcome.value))
        return request.unanswered(outcome)

    async def _keep(self, run: AskingTurn, waiter: OpenQuestion) -> None:
        """Keep what is answered to one who left, as long as the run lives."""
        outcome = await waiter.given()
        key = waiter.request.key
        still_asked = any(one.key == asked_key(key) for one in run.machine.questions.open)
        if outcome is not None and outcome != "closed" and still_asked:
            await run.commit(_end(run, key, outcome, later=True))

    async def _outcome(self, run: AskingTurn, asking: Asking) -> Ending | None:
        request = asking.request
        waiter = OpenQuestion(request, self._parties(), suspends=asking.suspends)
        self._waiters[request.key] = waiter
        leaves = False
        try:
            # The limit of a hook begins with its first wait: only then can it be paused.
            await asyncio.sleep(0)
            with patience.paused(), self._pausing(run):
                until = await _kept_until(run, asking)
                outcome = await self._wait(run, waiter, (asking.seconds, until))
            leaves = outcome is None
            return "cancelled" if outcome == "closed" else outcome
        finally:
            if not leaves:
                waiter.settle("cancelled")

    def _parties(self) -> frozenset[Party]:
        """Who may answer while the run waits."""
        parties: set[Party] = set()
        if self.handler is not None:
            parties.add("handler")
        if self.watched:
            parties.add("reader")
        return frozenset(parties)

    async def _wait(
        self, run: AskingTurn, waiter: OpenQuestion, times: tuple[float | None, float | None]
    ) -> Ending | Literal["closed"] | None:
        seconds, until = times
        if waiter.suspends and self.within:
            seconds = None
        left = None if until is None else until - run.plan.clock.now()
        if left is not None and left <= 0:
            return "timeout"
        if not (self.watched or self.handler is not None):
            waiter.desert()
            return await waiter.wait()
        if run.channel is not None:
            run.channel.publish(waiter.request)
        tasks: list[asyncio.Task[object]] = []
        if seconds is not None or left is not None:
            tasks.append(asyncio.create_task(_slept(run.plan.clock, left or seconds or 0.0)))
            final = not waiter.suspends or left is not None
            tasks[-1].add_done_callback(partial(_timed_out, waiter, final))
        if self.handler is not None:
            tasks.append(asyncio.create_task(_called(self.handler, waiter.request)))
            tasks[-1].add_done_callback(partial(self._handled, waiter))
        if waiter.suspends and self.watched and run.channel is not None:
            tasks.append(asyncio.create_task(_seen(run.channel)))
            tasks[-1].add_done_callback(partial(_passed_by, waiter))
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
            self._given(waiter, given)
        else:
            waiter.passes("handler")

    def _given(self, waiter: OpenQuestion, given: object) -> None:
        """The handler's answer, addressed or bare."""
        value = given.value if isinstance(given, Answer) else given
        try:
            checked(waiter.request, value)
        except AnswerTypeError as error:
            waiter.settle(error)
        else:
            waiter.settle(Answer(waiter.request.key, value))


class TurnAsker:
    """Asks for the effects of one turn, from whatever loop.

    Args:
        questions: of the turn.
        run: the turn.
        hook: whether hooks ask, and not tools.
    """

    __slots__ = ("_home", "_hook", "questions", "run")

    def __init__(self, questions: Questions, run: AskingTurn, *, hook: bool) -> None:
        self.questions = questions
        self.run = run
        self._hook = hook
        self._home = asyncio.get_running_loop()

    async def __call__(
        self, scope: str, attempt: int, request: AnyRequest, timeout: Timeout
    ) -> object:
        """The answer. Raises Suspended when the run does not wait for it."""
        who = (scope, attempt, self._hook)
        answer = self.questions.ask_for(self.run, who, request, timeout)
        if asyncio.get_running_loop() is self._home:
            return await answer
        # A sync tool asks from a loop of its own, in its thread.
        there = asyncio.run_coroutine_threadsafe(answer, self._home)
        self.questions.from_elsewhere(there)
        return await asyncio.wrap_future(there)


def receipt_for(machine: RunMachine, key: str) -> Receipt:
    """What an answer gets for a question that is not open."""
    kept = machine.questions.ended.get(key)
    if kept is not None:
        return Receipt("answered" if kept.why is None else "late")
    return Receipt("late" if key in machine.questions.asked else "unknown")


def _end(
    run: AskingTurn, key: str, outcome: Ending, *, later: bool = False
) -> QuestionAnswered | QuestionUnanswered:
    at = run.plan.clock.now()
    if isinstance(outcome, Answer):
        return QuestionAnswered(key, at, plain_form(outcome.value), later)
    why = "failed" if isinstance(outcome, AnswerTypeError) else outcome
    return QuestionUnanswered(key, at, why, later)


async def _kept_until(run: AskingTurn, asking: Asking) -> float | None:
    """From when on an answer is too late, by the clock; the question itself is kept first."""
    key, at = asking.request.key, run.plan.clock.now()
    asked = run.machine.questions.asked.get(key)
    if asked is None:
        asked = QuestionAsked(
            asked_key(key),
            at,
            type(asking.request).__name__,
            asking.plain,
            "suspend" if asking.suspends else "hold",
            asking.before,
            asking.until(at),
        )
        await run.commit(asked)
    return asked.until


async def _called(handler: OnQuestion, request: AnyRequest) -> object:
    return await handler(request)


async def _slept(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


async def _seen(channel: Channel) -> None:
    await channel.seen()


def _passed_by(waiter: OpenQuestion, seen: asyncio.Task[object]) -> None:
    """The reader took the question, and asks for what comes next."""
    if not seen.cancelled():
        waiter.passes("reader")


def _timed_out(
    waiter: OpenQuestion, final: bool, timer: asyncio.Task[object]
) -> None:  # REASON: bound by partial
    if timer.cancelled() or timer.exception() is not None:
        return
    if final:
        waiter.settle("timeout")
    else:
        waiter.desert()


async def _extend(run: AskingTurn, request: AnyRequest, answer: object) -> None:
    """A yes to going on extends the limit, once."""
    machine = run.machine
    if not isinstance(request, ContinuationRequest) or not isinstance(answer, Continued):
        return
    if machine.phase is Phase.MODEL and machine.over_limit:
        key = extended_key(machine.turn, machine.iteration)
        more = answer.iterations or request.extension
        await run.commit(LimitExtended(key, run.plan.clock.now(), more))
