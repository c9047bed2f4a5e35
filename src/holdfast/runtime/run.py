"""One turn under way: what the driver and the performing functions share about it.

A run belongs to one task. Nothing outside this object may hold the state of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TypeVar

import msgspec

from holdfast.core.answer import flags_of
from holdfast.core.effects import Effect, turn_key
from holdfast.core.errors import HoldfastError
from holdfast.core.events import (
    Event,
    ModelReplied,
    OutputChecked,
    Status,
    ToolFinished,
    TurnOpened,
)
from holdfast.core.kept_request import kept_request
from holdfast.core.limits import Limits
from holdfast.core.machine import RunMachine
from holdfast.core.messages import Message, Reply, Usage
from holdfast.core.output import Parsed
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal, RunLog
from holdfast.middleware.folds import Folds
from holdfast.resilience.pipeline import Env
from holdfast.runtime.hooked import Hooked
from holdfast.runtime.leaving_open import Recovery, TurnRecovery
from holdfast.runtime.notices import Channel, wake_all
from holdfast.runtime.observers import at_once, observed_by
from holdfast.runtime.plan import Plan
from holdfast.runtime.questions import Questions
from holdfast.runtime.result import Result
from holdfast.runtime.spending import CallNotes, tokens_left
from holdfast.runtime.write_behind import WriteBehind, enqueue_of, goes_ahead
from holdfast.tools.context import Meter

T = TypeVar("T")


class Cut:
    """What a reply had when its attempt was cancelled.

    Apart from the run: a run that is reached from its own `env` is freed only by the collector.
    """

    __slots__ = ("partial",)

    def __init__(self) -> None:
        self.partial: Reply | None = None

    def keep(self, reply: Reply) -> None:
        """Called by the attempt."""
        self.partial = reply


class Run:
    """The state of one turn outside the machine.

    Args:
        plan: the agent, compiled.
        run_id: names the run in its journal.
        machine: the conversation so far; this run opens its next turn.
        journal: where the events go: a journal, or a lease of one.
        channel: where events and notices are shown; None when nobody looks.
    """

    __slots__ = (
        "_away",
        "_keeping",
        "_together",
        "_waiters",
        "acted",
        "behind",
        "beside",
        "channel",
        "cut",
        "deadline",
        "deps",
        "env",
        "error",
        "folds",
        "history",
        "hooks",
        "in_doubt",
        "journal",
        "left",
        "limits",
        "loop",
        "machine",
        "notes",
        "parsed",
        "plan",
        "questions",
        "recovery",
        "run_id",
        "session",
        "started",
        "tell",
        "unkept",
        "waiting",
        "works_for",
    )

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        machine: RunMachine,
        journal: RunLog,
        channel: Channel | None = None,
    ) -> None:
        self.plan = plan
        self.run_id = run_id
        self.machine = machine
        self.journal = journal
        self.channel = channel
        self.loop = asyncio.get_running_loop()
        self.questions = Questions()
        self.limits: Limits = plan.limits
        self.history: Sequence[Message] = ()
        """What was said before, where only this run's journal can tell it again."""
        self.session: str | None = None
        self.deps: object = None
        self.deadline: float | None = None
        self._away = 0.0  # seconds in which no process drove the turn, until an event tells them
        self._keeping: list[Event] = []  # on their way into the journal, and not believed yet
        self._together = False  # whether those are results of tools
        self._waiters: list[asyncio.Future[None]] = []
        self.started: set[str] = set()
        self.acted: set[str] = set()
        """Effects whose tool or model was called, not only the hooks before it."""
        self.waiting: dict[str, frozenset[str]] = {}
        """Effects that were suspended, with the questions that they left."""
        self.left: set[str] = set()
        """Effects that began and were left: by another process, or to wait for an answer."""
        self.beside: Journal | None = None
        """Where runs of agents that are its tools are kept; None when nobody would go on with them."""
        self.in_doubt: frozenset[str] = frozenset()
        self.error: BaseException | None = None
        self.parsed: Parsed | None = None
        """What the last check in this process made of an answer."""
        self.unkept: BaseException | None = None
        """Why an event could not be kept; nothing may be kept after it."""
        publish = channel.publish if channel is not None else None
        self.tell = observed_by(plan.observers, (plan.name, run_id), publish)
        """How events and notices are shown; None when nobody looks."""
        enqueue = enqueue_of(journal)
        self.behind = WriteBehind(enqueue, self.tell) if enqueue is not None else None
        """What is on its way into the journal; None where every record is waited for."""
        if self.behind is not None and self.tell is not None:
            self.tell = self.behind.tell
        ready = channel.ready if channel is not None else at_once if plan.observers else None
        self.folds: Folds | None = None
        self.hooks: Hooked | None = None
        self.cut = Cut()
        self.notes: dict[str, CallNotes] = {}
        """Of the tools under way, by the key of their call."""
        self.works_for: Meter | None = None
        """The call of another agent that this run works for."""
        self.env = Env(plan.clock, plan.dice, self.tell, ready, self.cut.keep)
        self.recovery: TurnRecovery | None = None  # drives the turn, and may leave it open

    async def commit(self, event: Event, effect: Effect | None = None) -> None:
        """Dry-run against the machine, keep, then believe: one event after another.

        Answers come from other tasks than that of the turn, and must be true where they stand in
        the journal. Only the results of tools are true in any order, and are kept together.
        """
        together = type(event) is ToolFinished
        while self._keeping and not (together and self._together):
            await self._one_less()
        # A tool or a hook may have caught it, and what it made of it is no outcome.
        self.check_kept()
        machine = self.machine
        if self._away and isinstance(event, ModelReplied | ToolFinished | OutputChecked):
            event, self._away = msgspec.structs.replace(event, away=self._away), 0.0
        machine.check(event)
        applied = machine.applied
        # A hook can end the turn in place of the effect; that event ends nothing that was planned.
        ended = effect if effect is not None and effect.key == event.key else None
        self._keeping.append(event)
        self._together = together
        try:
            await self._keep(event, ended)
        except HoldfastError as error:
            self.unkept = error
            raise
        else:
            self._believe(event, checked=machine.applied == applied)
        finally:
            if event in self._keeping:
                self._keeping.remove(event)
            if self._waiters:
                wake_all(self._waiters)

    def check_kept(self) -> None:
        """Raise why something of the turn could not be kept, if that is so."""
        if self.unkept is not None:
            raise self.unkept
        if self.behind is not None and self.behind.error is not None:
            raise self.behind.error

    async def _keep(self, event: Event, ended: Effect | None) -> None:
        try:
            if self.behind is None:
                await self.journal.append(self.run_id, event, ended)
            else:
                await self._keep_behind(self.behind, event, ended)
        except asyncio.CancelledError:
            # Kept or not: what the journal says is what happened, or the next event would not fit,
            # and in its order. Another driver's outcome for the key is not this one.
            for record in await _whatever_comes(self.journal.read(self.run_id)):
                self._believe(record.event)
            raise

    def _keep_behind(
        self, behind: WriteBehind, event: Event, ended: Effect | None
    ) -> Awaitable[None]:
        all_kept, keeping = behind.all_kept, len(self._keeping)
        ahead = goes_ahead(self.machine, event, self.plan, all_kept=all_kept, keeping=keeping)
        limit = self.questions.patience
        if keeping > 1 and ahead:
            return self._keep_last(behind, event, ended)
        if ahead:
            return behind.hand_over(self.run_id, event, ended, limit)
        if type(event) is ToolFinished:
            return behind.keep_result(self.run_id, event, ended, limit)
        return behind.append(self.run_id, event, ended)

    async def _keep_last(self, behind: WriteBehind, event: Event, ended: Effect | None) -> None:
        """The last result lets the others go on; all are believed in the order of the journal."""
        await behind.hand_over(self.run_id, event, ended, self.questions.patience)
        behind.let_go()
        while len(self._keeping) > 1:
            await self._one_less()

    async def believed(self) -> None:
        """Wait until nothing is being kept that is not believed yet."""
        while self._keeping:
            await self._one_less()

    async def _one_less(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def until_settled(self) -> None:
        """Wait until everything handed over is saved or refused, whoever is cancelled meanwhile."""
        if self.behind is not None:
            await _whatever_comes(self.behind.until_settled())

    async def until_kept(self) -> None:
        """Wait until nothing of the turn is on its way into the journal; hooks see only what is kept.

        Raises:
            BaseException: why something could not be kept.
        """
        if self.behind is not None:
            await self.behind.until_kept()

    def _believe(self, event: Event, *, checked: bool = False) -> None:
        if event not in self._keeping:
            return  # it was believed when another one was cancelled that came after it
        self._keeping.remove(event)
        self.machine.apply(event, checked=checked)
        self.notes.pop(event.key, None)
        if self.folds is not None:
            self.folds.apply(event)
        if self.tell is not None:
            self.tell(event)

    async def open(self, message: Message, instructions: str | None = None) -> None:
        """Begin the next turn with what the user said, and instructions that are its own."""
        if self.limits.seconds is not None:
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds
        key = turn_key(self.machine.turn + 1)
        at, agent = self.plan.clock.now(), self.plan.name
        flags = flags_of(checked=self.plan.output is not None)
        opened = TurnOpened(
            key, at, message, self.limits, flags, agent, instructions, tuple(self.history)
        )
        await self.commit(opened)

    def take_over(self) -> None:
        """Go on with a turn that no process drove: the time since its last event is not its own."""
        machine, log, at = self.machine, self.machine.questions, self.plan.clock.now()
        self.limits = machine.limits
        if machine.phase in (Phase.IDLE, Phase.CLOSING):
            return  # there is nothing left to do that takes time
        if machine.last is not None and not (log.open or log.due):  # else time stands still anyway
            self._away = max(0.0, at - machine.last.at)
        if self.limits.seconds is not None:
            worked = machine.worked(at) - self._away
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds - worked

    def recover_under(self, recovery: Recovery | None) -> None:
        """Leave the turn open where a recovery must not close it; None lets everything close it."""
        if recovery is not None:
            self.recovery = TurnRecovery(recovery)
            self.env = msgspec.structs.replace(self.env, note_retry=self.recovery.note_retry)

    def time_left(self) -> float | None:
        """Seconds until the deadline of the turn; None without one."""
        return None if self.deadline is None else self.deadline - self.plan.clock.monotonic()

    def _output(self, reply: Reply | None) -> object:
        """The answer of a completed turn. A checked one is read again if this process did not."""
        machine, wanted = self.machine, self.plan.output
        if machine.output is not None or machine.rung == "":
            return machine.output
        if reply is None or machine.rung == "raw" or wanted is None:
            return reply.text if reply is not None else ""
        return wanted.value_in(reply, self.parsed)

    def spent_in_tools(self) -> Usage:
        """What tools under way have spent so far."""
        return sum((notes.usage for notes in self.notes.values()), Usage())

    def tokens_left(self) -> int | None:
        """What may still be spent: by its own limit, and by those of the agents that it works for."""
        own = tokens_left(self.machine.limits.tokens, self.machine.usage, list(self.notes.values()))
        above = self.works_for.left() if self.works_for is not None else None
        return above if own is None or (above is not None and above < own) else own

    def result(self) -> Result[object]:
        """The turn as it ended."""
        machine = self.machine
        completed = machine.status is Status.COMPLETED
        said = machine.reply if completed else machine.partial
        text = said.text if said is not None else ""
        output = self._output(said) if completed else None
        stopped = machine.stopped if machine.status is Status.STOPPED else None
        if stopped is not None:
            text = stopped.text
            output = text if self.plan.output is None else None
        return Result(
            output=output,
            text=text,
            status=machine.status if machine.phase is Phase.IDLE else Status.WAITING,
            usage=machine.usage,
            iterations=machine.model_calls,
            run_id=self.run_id,
            history=machine.transcript.fork(),
            error=machine.error,
            tried=machine.tried,
            stop_reason=stopped.reason if stopped is not None else "",
            rung=machine.rung if completed else "",
            questions=tuple(kept_request(asked) for asked in machine.questions.open),
        )


async def _whatever_comes(work: Coroutine[object, object, T]) -> T:
    """The outcome of something short, also for one who is cancelled again meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue  # the caller raises it when it knows
    return task.result()
