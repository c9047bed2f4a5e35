"""What runs an agent: its plan, its open sessions, and the one path that every turn takes.

A fresh turn, a turn of a session and a resumed one differ in what they begin with and in nothing
else. This module must never perform an effect (that is the driver's) and holds no state of a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic

from typing_extensions import TypeVar

from holdfast.core.effects import is_nested_run, nested_run_ids
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
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message
from holdfast.core.question_log import ASKED
from holdfast.core.session_state import Phase
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal
from holdfast.middleware.chain import limits_with
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.answering import Answering
from holdfast.runtime.around_turn import continue_turn, run_turn
from holdfast.runtime.channel import Channel
from holdfast.runtime.compile import AgentOptions, compile_plan
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.finalize import finalize_left_turn
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.question_checks import check_handler, check_on_wait
from holdfast.runtime.recovery import RecoveredRun, RecoveryProgress, RecoveryTime, recover_each
from holdfast.runtime.result import Result
from holdfast.runtime.run_stream import RunStream
from holdfast.runtime.sessions.session_pool import (
    OpenSession,
    SessionPool,
    check_on_busy,
    resolve_journal,
)
from holdfast.runtime.subagent import ChildRun, Subagent, subagent_tool
from holdfast.runtime.turn_input import Prompt, TurnInput, to_message
from holdfast.tools.tool import Tool

T = TypeVar("T", default=str)


class Engine(Generic[T]):
    """Runs the turns of one agent.

    Args:
        options: the keywords of the agent.

    Raises:
        ConfigurationError: one of them is wrong; it names the argument and the fix.
    """

    __slots__ = (
        "_journal",
        "_max_wait",
        "_on_question",
        "_on_wait",
        "answering",
        "plan",
        "session_pool",
    )

    def __init__(self, options: AgentOptions) -> None:
        self.plan = compile_plan(options)
        self._on_question = check_handler(options.on_question)
        self._on_wait = check_on_wait(options.on_wait, options.journal)
        self._max_wait = check_on_busy(options.on_busy)
        self._journal = journal = resolve_journal(options.journal)
        self.session_pool = SessionPool(
            journal or MemoryJournal(), self.plan.output, self.plan.chain
        )
        self.answering = Answering(self.plan, self.session_pool, journal)

    @staticmethod
    def make_turn(
        prompt: Prompt,
        session: str | None,
        history: Sequence[Message],
        limits: Limits | None,
        deps: object,
    ) -> TurnInput:
        """The turn that is asked for. Raises ConfigurationError."""
        return TurnInput(
            message=to_message(prompt), session=session, history=history, limits=limits, deps=deps
        )

    async def run(self, turn: TurnInput) -> Result[T]:
        """Run a turn that nobody watches."""
        return await self._run_turn(turn, None, self._make_broker())

    def stream(self, turn: TurnInput) -> RunStream[T]:
        """Run a turn that somebody watches."""
        return self._open_stream(partial(self._run_turn, turn))

    def _open_stream(
        self, work: Callable[[Channel, QuestionBroker], Awaitable[Result[T]]]
    ) -> RunStream[T]:
        questions = self._make_broker(has_reader=True)
        output = self.plan.output.schema if self.plan.output is not None else None
        return RunStream(lambda channel: work(channel, questions), questions, output)

    def _make_broker(self, *, has_reader: bool = False) -> QuestionBroker:
        return QuestionBroker(self._on_question, has_reader=has_reader, on_wait=self._on_wait)

    async def resume(self, run_id: str, deps: object) -> Result[T]:
        """Go on with a turn that was cut short; see `Agent.resume`."""
        return await self._resume_turn(run_id, deps, None, self._make_broker())

    def resume_stream(self, run_id: str, deps: object) -> RunStream[T]:
        """Go on with a turn while somebody watches; see `Agent.resume_stream`."""
        return self._open_stream(partial(self._resume_turn, run_id, deps))

    async def _resume_turn(
        self, run_id: str, deps: object, channel: Channel | None, questions: QuestionBroker
    ) -> Result[T]:
        self._require_journal("resume")
        async with self.session_pool.open_session(run_id, max_wait=self._max_wait) as entry:
            if not entry.machine.turn:
                raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
            return await self._continue_turn(
                self._restore_turn(run_id, entry, deps, channel, questions)
            )

    def _require_journal(self, action: str) -> Journal:
        if self._journal is None:
            raise ConfigurationError(
                "journal", f"there is none to {action} from", fix="Pass journal= to the Agent"
            )
        return self._journal

    def _restore_turn(
        self,
        run_id: str,
        entry: OpenSession,
        deps: object,
        channel: Channel | None,
        questions: QuestionBroker,
    ) -> ActiveTurn:
        """The run of a turn that was left as the journal tells it."""
        run = ActiveTurn(self.plan, run_id, entry.machine, entry.log, channel)
        run.folds, run.session, run.deps = entry.folds, run_id, deps
        run.questions, run.child_journal = questions, self._journal
        return run

    async def recover(
        self, deps: object, parallel: int, seconds: float | None
    ) -> list[RecoveredRun[T]]:
        """Go on with every interrupted run of this agent; see `Agent.recover`."""
        journal, timing = self._require_journal("recover"), RecoveryTime(seconds)
        runs = [
            entry.run
            for entry in await timing.open_runs(journal)
            if entry.agent == self.plan.name
            and not entry.leased
            and not is_nested_run(entry.run)
            and entry.run not in self.answering.active_turns
        ]

        async def go_on(progress: RecoveryProgress[T]) -> None:
            async with self.session_pool.open_session(progress.run_id, max_wait=0) as entry:
                run = self._restore_turn(progress.run_id, entry, deps, None, self._make_broker())
                if progress.begin(run):
                    progress.result = await self._continue_turn(run)

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
            turn=self._run_child,
            on_question=self._on_question,
            limits=limits,
            own_budget=own_budget,
        )
        return subagent_tool(agent, name, description)

    async def _run_turn(
        self, turn: TurnInput, channel: Channel | None, questions: QuestionBroker
    ) -> Result[T]:
        if turn.session is not None:
            async with self.session_pool.open_session(
                turn.session, max_wait=self._max_wait
            ) as entry:
                run = ActiveTurn(self.plan, turn.session, entry.machine, entry.log, channel)
                run.folds = entry.folds
                run.questions, run.child_journal = questions, self._journal
                return await self._start_turn(run, turn)
        run_id = new_run_id()
        # Nobody else can know a run that is in no journal.
        lease = None if self._journal is None else await self.session_pool.acquire_lease(run_id)
        try:
            machine = SessionMachine(turn.history, self.plan.output)
            run = ActiveTurn(self.plan, run_id, machine, lease or MemoryJournal(), channel)
            run.folds = self.plan.chain.new_folds() if self.plan.chain is not None else None
            run.questions, run.child_journal = questions, self._journal
            run.history = turn.history if self._journal is not None else ()
            return await self._start_turn(run, turn)
        finally:
            if lease is not None:
                await lease.release()

    async def _run_child(
        self,
        turn: TurnInput,
        channel: Channel | None,
        questions: QuestionBroker,
        child_run: ChildRun | None,
    ) -> Result[T]:
        """A turn as the tool of another run; one that its journal knows goes on."""
        if child_run is None:
            return await self._run_turn(turn, channel, questions)
        conversations = SessionPool(child_run.journal, self.plan.output, self.plan.chain)
        for run_id in nested_run_ids(child_run.run_id):
            async with conversations.open_session(run_id) as entry:
                run = ActiveTurn(self.plan, run_id, entry.machine, entry.log, channel)
                run.folds, run.questions, run.child_journal = (
                    entry.folds,
                    questions,
                    child_run.journal,
                )
                run.deps, run.parent_meter = turn.deps, turn.parent_meter
                run.recover_under(child_run.recovery)
                if turn.parent_meter is not None:
                    turn.parent_meter.take_over(run_id, entry.machine.usage)
                if not entry.machine.turn:
                    return await self._start_turn(run, turn)
                # What was cancelled is an attempt of the call, which is tried again from new.
                if entry.machine.status is not Status.CANCELLED:
                    return await self._continue_turn(run)
        raise AssertionError("unreachable")

    async def _start_turn(self, run: ActiveTurn, turn: TurnInput) -> Result[T]:
        run.session, run.deps, run.parent_meter = turn.session, turn.deps, turn.parent_meter
        if turn.limits is not None:
            run.limits = self.plan.cap_limits(limits_with(self.plan.middlewares, turn.limits))
        if run.machine.phase is not Phase.IDLE:
            if (log := run.machine.questions).is_waiting:
                keys = tuple(asked.key.removesuffix(ASKED) for asked in log.open_questions)
                raise WaitingError(run.run_id, keys)
            await finalize_left_turn(run)
        if self.plan.chain is None or run.folds is None:
            return await self._drive_to_end(run, _run_plain_turn(run, turn.message))
        return await self._drive_to_end(
            run, run_turn(run, turn.message, self.plan.chain, run.folds)
        )

    async def _continue_turn(self, run: ActiveTurn) -> Result[T]:
        machine = run.machine
        if machine.has_begun_tools:
            run.left_effects.update(effect.key for effect in machine.pending_effects())
            run.in_doubt = frozenset(run.left_effects - machine.questions.rerunnable_askers)
        run.take_over()
        if self.plan.chain is None or run.folds is None:
            return await self._drive_to_end(run, drive_turn(run))
        return await self._drive_to_end(run, continue_turn(run, self.plan.chain, run.folds))

    async def _drive_to_end(self, run: ActiveTurn, work: Awaitable[None]) -> Result[T]:
        """Drive the run; as long as it is under way, answers are handed to it."""
        under_way = self.answering.active_turns
        under_way[run.run_id] = run
        try:
            await work
        finally:
            del under_way[run.run_id]
            await run.questions.close()
            if run.recovery is not None:
                await run.until_settled()
        return self._finish_turn(run)

    def _finish_turn(self, run: ActiveTurn) -> Result[T]:
        result: Result[T] = run.build_result()  # type: ignore[assignment]  # the plan's output type is T
        stopped = result.status is Status.STOPPED and self.plan.output is None
        if stopped or result.status in (Status.COMPLETED, Status.WAITING):
            return result
        raise _build_failure(run, result)


async def _run_plain_turn(run: ActiveTurn, message: Message) -> None:
    """A turn of an agent without middleware."""
    await run.open_turn(message)
    await drive_turn(run)


def _build_failure(run: ActiveTurn, result: Result[T]) -> HoldfastError:
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
        from holdfast.runtime.output_check import add_output_details  # plain text needs none of it

        error = add_output_details(run, error)
    error.result = result
    return error
