"""One turn under way: what the driver and the performing functions share about it.

A run belongs to one task. Nothing outside this object may hold the state of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TypeVar

import msgspec

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
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Reply, Usage
from holdfast.core.output import ParseResult
from holdfast.core.output_retries import turn_flags
from holdfast.core.recorded_questions import restore_question
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal, RunLog
from holdfast.middleware.folds import Folds
from holdfast.resilience.pipeline import ExecutionContext
from holdfast.runtime.channel import Channel, wake_all
from holdfast.runtime.leaving_open import Recovery, TurnRecovery
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.result import Result
from holdfast.runtime.turn_hooks import TurnHooks
from holdfast.runtime.usage_meter import UsageMeter, count_remaining
from holdfast.runtime.write_behind import WriteBehind, enqueue_of, goes_ahead
from holdfast.telemetry.observers import make_emitter, wait_for_nobody
from holdfast.tools.context import UsageSink

T = TypeVar("T")


class PartialReply:
    """What a reply had when its attempt was cancelled.

    Apart from the run: a run that is reached from its own `env` is freed only by the collector.
    """

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: Reply | None = None

    def save(self, reply: Reply) -> None:
        """Called by the attempt."""
        self.reply = reply


class ActiveTurn:
    """The state of one turn outside the machine.

    Args:
        plan: the agent, compiled.
        run_id: names the run in its journal.
        machine: the conversation so far; this run opens its next turn.
        journal: where the events go: a journal, or a lease of one.
        channel: where events and notices are shown; None when nobody looks.
    """

    __slots__ = (
        "_idle_seconds",
        "_only_results",
        "_pending_events",
        "_waiters",
        "behind",
        "called_effects",
        "channel",
        "child_journal",
        "deadline",
        "deps",
        "emit",
        "env",
        "error",
        "folds",
        "history",
        "hooks",
        "in_doubt",
        "journal",
        "journal_error",
        "last_parsed",
        "left_effects",
        "limits",
        "loop",
        "machine",
        "parent_meter",
        "partial_reply",
        "plan",
        "questions",
        "recovery",
        "run_id",
        "session",
        "started_effects",
        "suspended_effects",
        "usage_meters",
    )

    def __init__(
        self,
        plan: AgentPlan,
        run_id: str,
        machine: SessionMachine,
        journal: RunLog,
        channel: Channel | None = None,
    ) -> None:
        self.plan = plan
        self.run_id = run_id
        self.machine = machine
        self.journal = journal
        self.channel = channel
        self.loop = asyncio.get_running_loop()
        self.questions = QuestionBroker()
        self.limits: Limits = plan.limits
        self.history: Sequence[Message] = ()
        """What was said before, where only this run's journal can tell it again."""
        self.session: str | None = None
        self.deps: object = None
        self.deadline: float | None = None
        self._idle_seconds = 0.0  # while no process drove the turn, until an event says so
        self._pending_events: list[Event] = []  # being saved, and not applied yet
        self._only_results = False  # whether those are results of tools
        self._waiters: list[asyncio.Future[None]] = []
        self.started_effects: set[str] = set()
        self.called_effects: set[str] = set()
        """Effects whose tool or model was called, not only the hooks before it."""
        self.suspended_effects: dict[str, frozenset[str]] = {}
        """Effects that were suspended, with the questions that they left."""
        self.left_effects: set[str] = set()
        """Effects that began and were left: by another process, or to wait for an answer."""
        self.child_journal: Journal | None = None
        """Where runs of agents that are its tools are kept; None when nobody would go on with them."""
        self.in_doubt: frozenset[str] = frozenset()
        self.error: BaseException | None = None
        self.last_parsed: ParseResult | None = None
        """What the last check in this process made of an answer."""
        self.journal_error: BaseException | None = None
        """Why an event could not be kept; nothing may be kept after it."""
        publish = channel.publish if channel is not None else None
        self.emit = make_emitter(plan.observers, (plan.name, run_id), publish)
        """How events and notices are shown; None when nobody looks."""
        enqueue = enqueue_of(journal)
        self.behind = WriteBehind(enqueue, self.emit) if enqueue is not None else None
        """What is on its way into the journal; None where every record is waited for."""
        if self.behind is not None and self.emit is not None:
            self.emit = self.behind.tell
        ready = (
            channel.ready if channel is not None else wait_for_nobody if plan.observers else None
        )
        self.folds: Folds | None = None
        self.hooks: TurnHooks | None = None
        self.partial_reply = PartialReply()
        self.usage_meters: dict[str, UsageMeter] = {}
        """Of the tools under way, by the key of their call."""
        self.parent_meter: UsageSink | None = None
        """The call of another agent that this run works for."""
        self.env = ExecutionContext(plan.clock, plan.rng, self.emit, ready, self.partial_reply.save)
        self.recovery: TurnRecovery | None = None  # drives the turn, and may leave it open

    async def commit(self, event: Event, effect: Effect | None = None) -> None:
        """Dry-run against the machine, keep, then believe: one event after another.

        Answers come from other tasks than that of the turn, and must be true where they stand in
        the journal. Only the results of tools are true in any order, and are kept together.
        """
        together = type(event) is ToolFinished
        while self._pending_events and not (together and self._only_results):
            await self._wait_for_pending()
        # A tool or a hook may have caught it, and what it made of it is no outcome.
        self.raise_if_unsaved()
        machine = self.machine
        if self._idle_seconds and isinstance(event, ModelReplied | ToolFinished | OutputChecked):
            event, self._idle_seconds = (
                msgspec.structs.replace(event, downtime=self._idle_seconds),
                0.0,
            )
        machine.check_event(event)
        applied = machine.event_count
        # A hook can end the turn in place of the effect; that event ends nothing that was planned.
        ended = effect if effect is not None and effect.key == event.key else None
        self._pending_events.append(event)
        self._only_results = together
        try:
            await self._save_event(event, ended)
        except HoldfastError as error:
            self.journal_error = error
            raise
        else:
            self._apply_event(event, checked=machine.event_count == applied)
        finally:
            if event in self._pending_events:
                self._pending_events.remove(event)
            if self._waiters:
                wake_all(self._waiters)

    def raise_if_unsaved(self) -> None:
        """Raise why something of the turn could not be kept, if that is so."""
        if self.journal_error is not None:
            raise self.journal_error
        if self.behind is not None and self.behind.error is not None:
            raise self.behind.error

    async def _save_event(self, event: Event, ended: Effect | None) -> None:
        try:
            if self.behind is None:
                await self.journal.append(self.run_id, event, ended)
            else:
                await self._keep_behind(self.behind, event, ended)
        except asyncio.CancelledError:
            # Kept or not: what the journal says is what happened, or the next event would not fit,
            # and in its order. Another driver's outcome for the key is not this one.
            for record in await _finish_uncancelled(self.journal.read(self.run_id)):
                self._apply_event(record.event)
            raise

    def _keep_behind(
        self, behind: WriteBehind, event: Event, ended: Effect | None
    ) -> Awaitable[None]:
        all_kept, keeping = behind.all_kept, len(self._pending_events)
        ahead = goes_ahead(self.machine, event, self.plan, all_kept=all_kept, keeping=keeping)
        limit = self.questions.turn_timeout
        if keeping > 1 and ahead:
            return self._keep_last(behind, event, ended)
        if ahead:
            return behind.hand_over(self.run_id, event, ended, limit)
        if type(event) is ToolFinished:
            return behind.keep_result(self.run_id, event, ended, limit)
        return behind.append(self.run_id, event, ended)

    async def _keep_last(self, behind: WriteBehind, event: Event, ended: Effect | None) -> None:
        """The last result lets the others go on; all are believed in the order of the journal."""
        await behind.hand_over(self.run_id, event, ended, self.questions.turn_timeout)
        behind.let_go()
        while len(self._pending_events) > 1:
            await self._wait_for_pending()

    async def wait_applied(self) -> None:
        """Wait until nothing is being kept that is not believed yet."""
        while self._pending_events:
            await self._wait_for_pending()

    async def _wait_for_pending(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def until_settled(self) -> None:
        """Wait until everything handed over is saved or refused, whoever is cancelled meanwhile."""
        if self.behind is not None:
            await _finish_uncancelled(self.behind.until_settled())

    async def until_kept(self) -> None:
        """Wait until nothing of the turn is on its way into the journal; hooks see only what is kept.

        Raises:
            BaseException: why something could not be kept.
        """
        if self.behind is not None:
            await self.behind.until_kept()

    def _apply_event(self, event: Event, *, checked: bool = False) -> None:
        if event not in self._pending_events:
            return  # it was believed when another one was cancelled that came after it
        self._pending_events.remove(event)
        self.machine.apply(event, is_checked=checked)
        self.usage_meters.pop(event.key, None)
        if self.folds is not None:
            self.folds.apply(event)
        if self.emit is not None:
            self.emit(event)

    async def open_turn(self, message: Message, instructions: str | None = None) -> None:
        """Begin the next turn with what the user said, and instructions that are its own."""
        if self.limits.seconds is not None:
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds
        key = turn_key(self.machine.turn + 1)
        at, agent = self.plan.clock.now(), self.plan.name
        flags = turn_flags(checked=self.plan.output is not None)
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
        if machine.last_event is not None and not (
            log.open_questions or log.due_askers
        ):  # else time stands still anyway
            self._idle_seconds = max(0.0, at - machine.last_event.at)
        if self.limits.seconds is not None:
            worked = machine.working_seconds(at) - self._idle_seconds
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds - worked

    def recover_under(self, recovery: Recovery | None) -> None:
        """Leave the turn open where a recovery must not close it; None lets everything close it."""
        if recovery is not None:
            self.recovery = TurnRecovery(recovery)
            self.env = msgspec.structs.replace(self.env, note_retry=self.recovery.note_retry)

    def time_left(self) -> float | None:
        """Seconds until the deadline of the turn; None without one."""
        return None if self.deadline is None else self.deadline - self.plan.clock.monotonic()

    def _get_output(self, reply: Reply | None) -> object:
        """The answer of a completed turn. A checked one is read again if this process did not."""
        machine, wanted = self.machine, self.plan.output
        if machine.output is not None or machine.parsed_by == "":
            return machine.output
        if reply is None or machine.parsed_by == "raw" or wanted is None:
            return reply.text if reply is not None else ""
        return wanted.get_value(reply, self.last_parsed)

    def sum_tool_usage(self) -> Usage:
        """What tools under way have spent so far."""
        return sum((notes.usage for notes in self.usage_meters.values()), Usage())

    def tokens_left(self) -> int | None:
        """What may still be spent: by its own limit, and by those of the agents that it works for."""
        own = count_remaining(
            self.machine.limits.tokens, self.machine.usage, list(self.usage_meters.values())
        )
        above = self.parent_meter.remaining_tokens() if self.parent_meter is not None else None
        return above if own is None or (above is not None and above < own) else own

    def build_result(self) -> Result[object]:
        """The turn as it ended."""
        machine = self.machine
        completed = machine.status is Status.COMPLETED
        said = machine.reply if completed else machine.partial
        text = said.text if said is not None else ""
        output = self._get_output(said) if completed else None
        stopped = machine.stop_event if machine.status is Status.STOPPED else None
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
            parsed_by=machine.parsed_by if completed else "",
            questions=tuple(restore_question(asked) for asked in machine.questions.open_questions),
        )


async def _finish_uncancelled(work: Coroutine[object, object, T]) -> T:
    """The outcome of something short, also for one who is cancelled again meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue  # the caller raises it when it knows
    return task.result()
