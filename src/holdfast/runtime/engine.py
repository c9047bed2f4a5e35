"""What runs an agent: its plan, its open sessions, and the one path that every turn takes.

A fresh turn, a turn of a session and a resumed one differ in what they begin with and in nothing
else. This module must never perform an effect (that is the driver's) and holds no state of a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic

from typing_extensions import TypeVar

from holdfast.core.effects import attempts_within, is_within
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    StoppedError,
    WaitingError,
    exception_for,
)
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.machine import RunMachine
from holdfast.core.messages import Message
from holdfast.core.question_log import ASKED
from holdfast.core.run_state import Phase
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal
from holdfast.middleware.chain import limits_with
from holdfast.runtime.answering import Answering
from holdfast.runtime.asking import checked_handler, checked_on_wait
from holdfast.runtime.clock import new_run_id
from holdfast.runtime.compile import Settings, compile_plan
from holdfast.runtime.conversations import Conversations, Open, checked_journal, checked_on_busy
from holdfast.runtime.driver import drive
from holdfast.runtime.hooked_turn import go_on, run_turn
from holdfast.runtime.notices import Channel
from holdfast.runtime.questions import Questions
from holdfast.runtime.recovery import Recovered, RecoveryProgress, RecoveryTime, recover_each
from holdfast.runtime.result import Result
from holdfast.runtime.run import Run
from holdfast.runtime.settle import settle_left
from holdfast.runtime.stream import RunStream
from holdfast.runtime.subagent import Beside, Subagent, subagent_tool
from holdfast.runtime.turn import Prompt, Turn, message_of
from holdfast.tools.tool import Tool

T = TypeVar("T", default=str)


class Engine(Generic[T]):
    """Runs the turns of one agent.

    Args:
        given: the keywords of the agent.

    Raises:
        ConfigurationError: one of them is wrong; it names the argument and the fix.
    """

    __slots__ = (
        "_journal",
        "_on_question",
        "_on_wait",
        "_patience",
        "answering",
        "conversations",
        "plan",
    )

    def __init__(self, given: Settings) -> None:
        self.plan = compile_plan(given)
        self._on_question = checked_handler(given.on_question)
        self._on_wait = checked_on_wait(given.on_wait, given.journal)
        self._patience = checked_on_busy(given.on_busy)
        self._journal = journal = checked_journal(given.journal)
        self.conversations = Conversations(
            journal or MemoryJournal(), self.plan.output, self.plan.chain
        )
        self.answering = Answering(self.plan, self.conversations, journal)

    @staticmethod
    def turn(
        prompt: Prompt,
        session: str | None,
        history: Sequence[Message],
        limits: Limits | None,
        deps: object,
    ) -> Turn:
        """The turn that is asked for. Raises ConfigurationError."""
        return Turn(
            message=message_of(prompt), session=session, history=history, limits=limits, deps=deps
        )

    async def run(self, turn: Turn) -> Result[T]:
        """Run a turn that nobody watches."""
        return await self._turn(turn, None, self._questions())

    def stream(self, turn: Turn) -> RunStream[T]:
        """Run a turn that somebody watches."""
        return self._watched(partial(self._turn, turn))

    def _watched(self, work: Callable[[Channel, Questions], Awaitable[Result[T]]]) -> RunStream[T]:
        questions = self._questions(watched=True)
        output = self.plan.output.schema if self.plan.output is not None else None
        return RunStream(lambda channel: work(channel, questions), questions, output)

    def _questions(self, *, watched: bool = False) -> Questions:
        return Questions(self._on_question, watched=watched, on_wait=self._on_wait)

    async def resume(self, run_id: str, deps: object) -> Result[T]:
        """Go on with a turn that was cut short; see `Agent.resume`."""
        return await self._resumed(run_id, deps, None, self._questions())

    def resume_stream(self, run_id: str, deps: object) -> RunStream[T]:
        """Go on with a turn while somebody watches; see `Agent.resume_stream`."""
        return self._watched(partial(self._resumed, run_id, deps))

    async def _resumed(
        self, run_id: str, deps: object, channel: Channel | None, questions: Questions
    ) -> Result[T]:
        self._kept("resume")
        async with self.conversations.turn(run_id, patience=self._patience) as entry:
            if not entry.machine.turn:
                raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
            return await self._go_on(self._left(run_id, entry, deps, channel, questions))

    def _kept(self, act: str) -> Journal:
        if self._journal is None:
            raise ConfigurationError(
                "journal", f"there is none to {act} from", fix="Pass journal= to the Agent"
            )
        return self._journal

    def _left(
        self,
        run_id: str,
        entry: Open,
        deps: object,
        channel: Channel | None,
        questions: Questions,
    ) -> Run:
        """The run of a turn that was left as the journal tells it."""
        run = Run(self.plan, run_id, entry.machine, entry.log, channel)
        run.folds, run.session, run.deps = entry.folds, run_id, deps
        run.questions, run.beside = questions, self._journal
        return run

    async def recover(
        self, deps: object, parallel: int, seconds: float | None
    ) -> list[Recovered[T]]:
        """Go on with every interrupted run of this agent; see `Agent.recover`."""
        journal, timing = self._kept("recover"), RecoveryTime(seconds)
        runs = [
            entry.run
            for entry in await timing.open_runs(journal)
            if entry.agent == self.plan.name
            and not entry.leased
            and not is_within(entry.run)
            and entry.run not in self.answering.under_way
        ]

        async def go_on(progress: RecoveryProgress[T]) -> None:
            async with self.conversations.turn(progress.run_id, patience=0) as entry:
                run = self._left(progress.run_id, entry, deps, None, self._questions())
                if progress.begin(run):
                    progress.result = await self._go_on(run)

        return await recover_each(runs, go_on, parallel, timing)

    async def abandon(self, run_id: str) -> Result[T]:
        """Close a turn that nobody will finish; see `Agent.abandon`."""
        result: Result[T] = await self.answering.abandon(run_id)  # type: ignore[assignment]  # as in `_ended`
        return result

    def as_tool(
        self, name: str | None, description: str | None, limits: Limits | None, *, own_budget: bool
    ) -> Tool:
        """The agent as a tool of another one; see `Agent.as_tool`."""
        agent = Subagent(
            plan=self.plan,
            turn=self._within,
            on_question=self._on_question,
            limits=limits,
            own_budget=own_budget,
        )
        return subagent_tool(agent, name, description)

    async def _turn(self, turn: Turn, channel: Channel | None, questions: Questions) -> Result[T]:
        if turn.session is not None:
            async with self.conversations.turn(turn.session, patience=self._patience) as entry:
                run = Run(self.plan, turn.session, entry.machine, entry.log, channel)
                run.folds = entry.folds
                run.questions, run.beside = questions, self._journal
                return await self._drive(run, turn)
        run_id = new_run_id()
        # Nobody else can know a run that is in no journal.
        lease = None if self._journal is None else await self.conversations.lease(run_id)
        try:
            machine = RunMachine(turn.history, self.plan.output)
            run = Run(self.plan, run_id, machine, lease or MemoryJournal(), channel)
            run.folds = self.plan.chain.new_folds() if self.plan.chain is not None else None
            run.questions, run.beside = questions, self._journal
            run.history = turn.history if self._journal is not None else ()
            return await self._drive(run, turn)
        finally:
            if lease is not None:
                await lease.release()

    async def _within(
        self, turn: Turn, channel: Channel | None, questions: Questions, beside: Beside | None
    ) -> Result[T]:
        """A turn as the tool of another run; one that its journal knows goes on."""
        if beside is None:
            return await self._turn(turn, channel, questions)
        conversations = Conversations(beside.journal, self.plan.output, self.plan.chain)
        for run_id in attempts_within(beside.run_id):
            async with conversations.turn(run_id) as entry:
                run = Run(self.plan, run_id, entry.machine, entry.log, channel)
                run.folds, run.questions, run.beside = entry.folds, questions, beside.journal
                run.deps, run.works_for = turn.deps, turn.notes
                run.recover_under(beside.recovery)
                if turn.notes is not None:
                    turn.notes.take_over(run_id, entry.machine.usage)
                if not entry.machine.turn:
                    return await self._drive(run, turn)
                # What was cancelled is an attempt of the call, which is tried again from new.
                if entry.machine.status is not Status.CANCELLED:
                    return await self._go_on(run)
        raise AssertionError("unreachable")

    async def _drive(self, run: Run, turn: Turn) -> Result[T]:
        run.session, run.deps, run.works_for = turn.session, turn.deps, turn.notes
        if turn.limits is not None:
            run.limits = self.plan.capped(limits_with(self.plan.middlewares, turn.limits))
        if run.machine.phase is not Phase.IDLE:
            if (log := run.machine.questions).waits:
                keys = tuple(asked.key.removesuffix(ASKED) for asked in log.open)
                raise WaitingError(run.run_id, keys)
            await settle_left(run)
        if self.plan.chain is None or run.folds is None:
            return await self._to_its_end(run, _plain_turn(run, turn.message))
        return await self._to_its_end(run, run_turn(run, turn.message, self.plan.chain, run.folds))

    async def _go_on(self, run: Run) -> Result[T]:
        machine = run.machine
        if machine.begun:
            run.left.update(effect.key for effect in machine.pending())
            run.in_doubt = frozenset(run.left - machine.questions.rested)
        run.take_over()
        if self.plan.chain is None or run.folds is None:
            return await self._to_its_end(run, drive(run))
        return await self._to_its_end(run, go_on(run, self.plan.chain, run.folds))

    async def _to_its_end(self, run: Run, work: Awaitable[None]) -> Result[T]:
        """Drive the run; as long as it is under way, answers are handed to it."""
        under_way = self.answering.under_way
        under_way[run.run_id] = run
        try:
            await work
        finally:
            del under_way[run.run_id]
            await run.questions.close()
            if run.recovery is not None:
                await run.until_settled()
        return self._ended(run)

    def _ended(self, run: Run) -> Result[T]:
        result: Result[T] = run.result()  # type: ignore[assignment]  # the plan's output type is T
        stopped = result.status is Status.STOPPED and self.plan.output is None
        if stopped or result.status in (Status.COMPLETED, Status.WAITING):
            return result
        raise _failure(run, result)


async def _plain_turn(run: Run, message: Message) -> None:
    """A turn of an agent without middleware."""
    await run.open(message)
    await drive(run)


def _failure(run: Run, result: Result[T]) -> HoldfastError:
    """The exception of a turn that did not complete, with its result and its cause."""
    cause = run.error
    if result.status is Status.STOPPED:
        stopped = StoppedError(result.text, reason=result.stop_reason)
        stopped.result = result
        return stopped
    info = result.error or ErrorInfo(category=ErrorCategory.UNKNOWN, safe="The turn failed.")
    if isinstance(cause, HoldfastError) and info.category is cause.info.category:
        error = cause
    else:
        error = exception_for(info, run.machine.partial)
        error.__cause__ = cause
    if run.plan.output is not None:
        from holdfast.runtime.checking import of_output  # plain text needs none of it

        error = of_output(run, error)
    error.result = result
    return error
