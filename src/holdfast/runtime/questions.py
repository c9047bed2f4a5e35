"""Questions of one turn: who waits for an answer, and who may give it.

The waiter is there before the question is shown, so that no answer is too fast. The first of
answer, timeout and cancellation wins under one lock, whatever thread it comes from; the others are
told that they came too late. Nothing here may poll, and no silence may count as a yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from holdfast.core.errors import AnswerTypeError
from holdfast.core.events import OnWait
from holdfast.core.requests import (
    Answer,
    AnyAnswer,
    AnyRequest,
    Timeout,
    checked,
    plain_form,
    restored,
)
from holdfast.resilience import patience
from holdfast.resilience.patience import Patience
from holdfast.runtime.answerers import Answerers, answered
from holdfast.runtime.asking import Asking, OnQuestion, check_asked, described, keyed
from holdfast.runtime.kept_questions import (
    AskingTurn,
    answerable,
    extend,
    keep_asked,
    keep_end,
)
from holdfast.runtime.open_question import Ending, OpenQuestion, Receipt, Suspended
from holdfast.tools.context import Asker


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
        self._elsewhere: set[asyncio.Task[object] | None] = set()
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
            request = answerable(run.machine, key, run.plan.clock.now())
            if isinstance(request, Receipt):
                return request
            # It is kept by the run, and whoever asked it has not come to ask again.
            waiter = self._waiters[key] = OpenQuestion(request, suspends=True)
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

    async def ask_from_elsewhere(self, answer: Awaitable[object]) -> object:
        """The answer for somebody on another loop, who is not to be left there when the run ends."""
        this = asyncio.current_task()
        self._elsewhere.add(this)
        try:
            return await answer
        finally:
            self._elsewhere.discard(this)

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
        keeping: list[asyncio.Task[Any]] = [*self._left.values(), *filter(None, self._elsewhere)]
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
        await extend(run, request, value)
        return value

    async def _fresh(self, run: AskingTurn, asking: Asking) -> object:
        """Ask, and keep how it ended."""
        request = asking.request
        outcome = await self._outcome(run, asking)
        if outcome is None:
            waiter = self._waiters[request.key]
            self._left[request.key] = asyncio.create_task(self._keep(run, waiter))
            raise Suspended(frozenset({request.key}))
        await keep_end(run, request.key, outcome)
        if isinstance(outcome, AnswerTypeError):
            raise outcome
        if isinstance(outcome, Answer):
            # Restored, so that the first run and a replay give the same object.
            return restored(request, plain_form(outcome.value))
        return request.unanswered(outcome)

    async def _keep(self, run: AskingTurn, waiter: OpenQuestion) -> None:
        """Keep what is answered to one who left, as long as the run lives."""
        outcome = await waiter.given()
        if outcome is not None and outcome != "closed":
            await keep_end(run, waiter.request.key, outcome, later=True)

    async def _outcome(self, run: AskingTurn, asking: Asking) -> Ending | None:
        request = asking.request
        by = Answerers(self.handler, run.channel, self.watched, run.plan.clock)
        waiter = OpenQuestion(request, by.parties, suspends=asking.suspends)
        self._waiters[request.key] = waiter
        leaves = False
        try:
            # The limit of a hook begins with its first wait: only then can it be paused.
            await asyncio.sleep(0)
            with patience.paused(), self._pausing(run):
                until = await keep_asked(run, asking)
                seconds = None if self.within and asking.suspends else asking.seconds
                by = msgspec.structs.replace(by, watched=self.watched)
                outcome = await answered(waiter, by, seconds, until)
            leaves = outcome is None
            return "cancelled" if outcome == "closed" else outcome
        finally:
            if not leaves:
                waiter.settle("cancelled")

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


class TurnAsker:
    """Asks for the effects of one turn, from whatever loop.

    Args:
        questions: of the turn.
        run: the turn.
        hook: whether hooks ask, and not tools.
    """

    __slots__ = ("_hook", "questions", "run")

    def __init__(self, questions: Questions, run: AskingTurn, *, hook: bool) -> None:
        self.questions = questions
        self.run = run
        self._hook = hook

    async def __call__(
        self, scope: str, attempt: int, request: AnyRequest, timeout: Timeout
    ) -> object:
        """The answer. Raises Suspended when the run does not wait for it."""
        who = (scope, attempt, self._hook)
        answer = self.questions.ask_for(self.run, who, request, timeout)
        home = self.run.loop
        if asyncio.get_running_loop() is home:
            return await answer
        # A sync tool asks from a loop of its own, in its thread.
        elsewhere = self.questions.ask_from_elsewhere(answer)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(elsewhere, home))
