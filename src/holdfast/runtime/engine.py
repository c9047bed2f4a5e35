"""Runs an agent: holds its plan and its open sessions, and runs every turn in the same way.

A new turn, a turn of a session and a resumed turn differ only in the state that they begin with.
This module must never perform an effect, which is the task of the driver, or hold the state of a
run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.effects import is_nested_run, nested_run_ids
from holdfast.core.errors import (
    ConfigurationError,
)
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.session_state import Phase
from holdfast.journal.journal_errors import RequestExistsError, RunChangedError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, RunEntry
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.answering import Answering, check_run_exists
from holdfast.runtime.around_turn import (
    build_failure,
    call_after_turn,
    continue_turn,
    start_turn,
    try_again,
)
from holdfast.runtime.channel import Channel, require_asyncio
from holdfast.runtime.compile import AgentKeywords, compile_plan
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.finalize import close_left_turn
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.question_checks import check_handler, check_on_wait
from holdfast.runtime.recovery import (
    RecoveredRun,
    RecoveryProgress,
    RecoveryTime,
    is_interrupted,
    recover_each,
    waits_for_answers,
)
from holdfast.runtime.result import Result
from holdfast.runtime.run_stream import RunStream
from holdfast.runtime.sessions.earlier_turn import find_last_try, is_latest_turn, replay_turn
from holdfast.runtime.sessions.local_lease import LocalLease
from holdfast.runtime.sessions.session_pool import (
    LeaseKind,
    NewRun,
    OpenSession,
    SessionPool,
    check_on_busy,
    resolve_journal,
)
from holdfast.runtime.subagent import ChildRun, Subagent, subagent_tool
from holdfast.runtime.turn_state.turn_input import Prompt, TurnInput, to_message
from holdfast.tools.tool import Tool

if TYPE_CHECKING:
    from holdfast.runtime.sessions.background_pruning import BackgroundPruning

T = TypeVar("T", default=str)

# Access to enum members is slow, and these are needed for every turn.
_COMPLETED, _IDLE = Status.COMPLETED, Phase.IDLE


class Engine(Generic[T]):
    """Runs the turns of one agent.

    Args:
        keywords: all keywords of the agent.

    Raises:
        ConfigurationError: a keyword is invalid. The error names the argument and the fix.
    """

    __slots__ = (
        "_max_wait",
        "_on_question",
        "_on_wait",
        "answering",
        "journal",
        "plan",
        "pruning",
        "session_pool",
    )

    def __init__(self, keywords: AgentKeywords) -> None:
        self.plan = compile_plan(keywords)
        self._on_question = check_handler(keywords["on_question"])
        self._on_wait = check_on_wait(keywords["on_wait"], keywords["journal"])
        self._max_wait = check_on_busy(keywords["on_busy"])
        self.journal = journal = resolve_journal(keywords["journal"])
        self.session_pool = SessionPool(
            journal or MemoryJournal(), self.plan.chain, keywords["session_cache"]
        )
        self.answering = Answering(self.plan, self.session_pool, journal)
        self.pruning: BackgroundPruning | None = None
        retention = keywords["retention"]
        if retention is not None:
            self.require_journal("delete old sessions")
            from holdfast.runtime.sessions.agent_sessions import make_pruning  # only with retention

            self.pruning = make_pruning(self.plan, self.session_pool, retention)

    def make_turn(
        self,
        prompt: Prompt,
        session: str | None,
        history: Sequence[Message],
        limits: Limits | None,
        deps: object,
        *,
        request: str | None,
    ) -> TurnInput:
        """Build the input of a turn. Raises ConfigurationError."""
        self.plan.check_deps(deps)
        return TurnInput(
            message=to_message(prompt),
            session=session,
            history=history,
            limits=limits,
            deps=deps,
            request=request,
        )

    def stream(self, turn: TurnInput) -> RunStream[T]:
        """Run a turn as a stream."""
        return self._open_stream(partial(self.run, turn))

    def _open_stream(
        self, work: Callable[[Channel, QuestionBroker], Awaitable[Result[T]]]
    ) -> RunStream[T]:
        questions = self._make_broker(has_reader=True)
        output = self.plan.output.schema if self.plan.output is not None else None
        return RunStream(lambda channel: work(channel, questions), questions, output)

    def _make_broker(self, *, has_reader: bool = False) -> QuestionBroker:
        return QuestionBroker(self._on_question, has_reader=has_reader, on_wait=self._on_wait)

    def resume_stream(self, run_id: str, deps: object) -> RunStream[T]:
        """Resume a turn as a stream; see `Agent.resume_stream`."""
        return self._open_stream(partial(self.resume, run_id, deps))

    async def resume(
        self,
        run_id: str,
        deps: object,
        channel: Channel | None = None,
        questions: QuestionBroker | None = None,
    ) -> Result[T]:
        """Resume an interrupted or suspended turn; see `Agent.resume`.

        Args:
            run_id: the id of the run, or the name of the session.
            deps: as for `Agent.run`.
            channel: as for `run`.
            questions: as for `run`.
        """
        require_asyncio()
        journal = self.require_journal("resume")
        self.plan.check_deps(deps)
        context = TurnContext(
            channel=channel,
            questions=self._make_broker() if questions is None else questions,
            session=run_id,
            deps=deps,
            child_journal=journal,
        )
        async with self.session_pool.open_session(run_id, max_wait=self._max_wait) as opened:
            check_run_exists(opened.machine, run_id)
            run = ActiveTurn(self.plan, run_id, opened, context)
            return await self._continue_turn(run, may_try_again=True)

    def require_journal(self, action: str) -> Journal:
        """Return the journal. Raises ConfigurationError if there is none for this action."""
        if self.journal is None:
            raise ConfigurationError(
                "journal", f"there is none to {action} from", fix="Pass journal= to the Agent"
            )
        return self.journal

    async def open_runs(self, timing: RecoveryTime | None = None) -> list[RunEntry]:
        """List the runs that are open and not in progress; see `Agent.open_runs`."""
        require_asyncio()
        journal = self.require_journal("recover")
        return [
            entry
            for entry in await (timing or RecoveryTime(None)).open_runs(journal)
            if entry.agent == self.plan.name
            and not entry.leased
            and not is_nested_run(entry.run)
            and entry.run not in self.answering.active_turns
            and not LocalLease.is_held(journal, entry.run)
        ]

    async def recover(
        self,
        chosen: Sequence[str] | None,
        deps: object,
        parallel: int,
        seconds: float | None,
    ) -> list[RecoveredRun[T]]:
        """Resume every interrupted run of this agent; see `Agent.recover`."""
        require_asyncio()
        journal, timing = self.require_journal("recover"), RecoveryTime(seconds)
        self.plan.check_deps(deps)
        check_value("runs", chosen, Sequence[str] | None)
        runs = [
            entry.run
            for entry in await self.open_runs(timing)
            if chosen is None or entry.run in chosen
        ]

        async def resume(progress: RecoveryProgress[T]) -> None:
            run_id = progress.run_id
            if await waits_for_answers(journal, run_id):
                return
            context = TurnContext(
                questions=self._make_broker(),
                session=run_id,
                deps=deps,
                child_journal=journal,
                recovery=progress.recovery,
            )
            async with self.session_pool.open_session(run_id, max_wait=0) as opened:
                if is_interrupted(opened.machine):
                    progress.run = ActiveTurn(self.plan, run_id, opened, context)
                    progress.result = await self._continue_turn(progress.run)

        return await recover_each(runs, resume, parallel, timing)

    def as_tool(
        self, name: str | None, description: str | None, limits: Limits | None, *, own_budget: bool
    ) -> Tool:
        """Return the agent as a tool for another agent; see `Agent.as_tool`."""
        agent = Subagent(
            plan=self.plan,
            turn=self._run_child,
            on_question=self._on_question,
            limits=limits,
            own_budget=own_budget,
        )
        return subagent_tool(agent, name, description)

    def run(
        self,
        turn: TurnInput,
        channel: Channel | None = None,
        questions: QuestionBroker | None = None,
        plan: AgentPlan | None = None,
    ) -> Coroutine[object, object, Result[T]]:
        """Run a turn; if the journal has a turn with its request, finish and return that one.

        Args:
            turn: the input of the turn.
            channel: receives the events and notices of the turn; None when there is no reader.
            questions: handles the questions of the turn; None creates a broker without a reader.
            plan: the plan of a subagent with the rules of its caller, which has no session; None
                takes the agent's own.
        """
        if turn.request is None:
            return self._run_new(turn, channel, questions, plan)
        return self._find_or_run(turn, turn.request, channel, questions)

    async def _find_or_run(
        self,
        turn: TurnInput,
        request: str,
        channel: Channel | None,
        questions: QuestionBroker | None,
    ) -> Result[T]:
        """Run a turn, unless the journal has a turn with its request; finish and return that one."""
        require_asyncio()
        journal = self.require_journal("find the request")
        questions = self._make_broker() if questions is None else questions
        known = await journal.find_request(request)
        if known is None:
            try:
                return await self._run_new(turn, channel, questions)
            except RequestExistsError:  # of a call at the same time
                known = await journal.find_request(request)
                if known is None:
                    raise
        return await self._run_again(turn, known, channel, questions)

    async def _run_again(
        self,
        turn: TurnInput,
        known: tuple[str, str],
        channel: Channel | None,
        questions: QuestionBroker,
    ) -> Result[T]:
        """Return the result of the turn that has the request, after it has ended."""
        run_id, key = known
        if turn.session not in (None, run_id):
            raise ConfigurationError(
                "request",
                f"{turn.request!r} belongs to a turn of another session",
                fix="Use a new request for each message",
            )
        context = TurnContext(
            channel=channel,
            questions=questions,
            session=turn.session,
            deps=turn.deps,
            child_journal=self.journal,
        )
        async with self.session_pool.open_session(run_id, max_wait=self._max_wait) as opened:
            records = await opened.log.read(run_id)
            key = find_last_try(records, key)
            if is_latest_turn(opened.machine, key):
                return await self._continue_turn(ActiveTurn(self.plan, run_id, opened, context))
        past = self.session_pool.make_session(MemoryJournal())
        past.machine = replay_turn(records, key)
        return self._finish_turn(ActiveTurn(self.plan, run_id, past, context))

    async def _run_new(
        self,
        turn: TurnInput,
        channel: Channel | None,
        questions: QuestionBroker | None,
        plan: AgentPlan | None = None,
    ) -> Result[T]:
        require_asyncio()
        context = TurnContext(
            channel=channel,
            questions=self._make_broker() if questions is None else questions,
            session=turn.session,
            deps=turn.deps,
            history=turn.history if self.journal is not None else (),
            limits=turn.limits,
            parent_meter=turn.parent_meter,
            child_journal=self.journal,
            request=turn.request or "",
        )
        plan, pool = plan or self.plan, self.session_pool
        if plan is not self.plan:
            pool = SessionPool(pool.journal, plan.chain)
        if pool.is_shared and plan.begins_directly:
            try:
                return await self._run_opened(turn, context, plan, pool, begins_turn=True)
            except RunChangedError:
                pass  # another process changed the session; nothing was saved or called
        return await self._run_opened(turn, context, plan, pool)

    async def _run_opened(
        self,
        turn: TurnInput,
        context: TurnContext,
        plan: AgentPlan,
        pool: SessionPool,
        *,
        begins_turn: bool = False,
    ) -> Result[T]:
        """Open the run and run the turn; see `SessionPool.open_session` for `begins_turn`."""
        opening: AbstractAsyncContextManager[OpenSession]
        run_id = turn.session or new_run_id()
        if turn.session is None:
            lease: LeaseKind | None = "prepared" if begins_turn else "claimed"
            lease = None if self.journal is None else lease
            opening = NewRun(pool, run_id, turn.history, lease=lease)
        else:
            opening = pool.open_session(run_id, max_wait=self._max_wait, begins_turn=begins_turn)
        async with opening as opened:
            run = ActiveTurn(plan, run_id, opened, context)
            if run.machine.phase is not _IDLE:
                await close_left_turn(run)
            self.answering.register_turn(run)
            try:
                await start_turn(run, turn.message)
                await drive_turn(run)
                await call_after_turn(run)
            finally:
                await self.answering.unregister_turn(run)
            return self._finish_turn(run)

    async def _run_child(
        self,
        plan: AgentPlan,
        turn: TurnInput,
        channel: Channel | None,
        questions: QuestionBroker,
        child_run: ChildRun | None,
    ) -> Result[T]:
        """Run a turn as a tool of another run, or continue the turn if the journal has it.

        The plan is that of this agent, with the rules of its caller.
        """
        plan.check_deps(turn.deps)
        if child_run is None:
            return await self.run(turn, channel, questions, plan)
        context = TurnContext(
            channel=channel,
            questions=questions,
            deps=turn.deps,
            limits=turn.limits,
            parent_meter=turn.parent_meter,
            child_journal=child_run.journal,
            recovery=child_run.recovery,
        )
        sessions = SessionPool(child_run.journal, plan.chain)
        for run_id in nested_run_ids(child_run.run_id):
            async with sessions.open_session(run_id) as opened:
                run = ActiveTurn(plan, run_id, opened, context)
                if turn.parent_meter is not None:
                    turn.parent_meter.take_over(run_id, opened.machine.usage)
                # A cancelled run was one attempt of the call; the next attempt has another run id.
                if opened.machine.status is not Status.CANCELLED:
                    return await self._continue_turn(run, turn.message)
        raise AssertionError("unreachable")

    async def _continue_turn(
        self, run: ActiveTurn, message: Message | None = None, *, may_try_again: bool = False
    ) -> Result[T]:
        """Continue a turn, or start it with the message if the journal does not have it.

        Args:
            run: the turn.
            message: the message of a turn that may not have begun.
            may_try_again: whether a turn that has failed is tried again.
        """
        self.answering.register_turn(run)
        try:
            if message is not None and not run.machine.turn:
                await start_turn(run, message)
            elif may_try_again and run.machine.can_try_again:
                await try_again(run)
            else:
                await continue_turn(run)
            await drive_turn(run)
            await call_after_turn(run)
        finally:
            await self.answering.unregister_turn(run)
        return self._finish_turn(run)

    def _finish_turn(self, run: ActiveTurn) -> Result[T]:
        if self.pruning is not None:
            self.pruning.begin_if_due()
        result: Result[T] = run.build_result()  # type: ignore[assignment]  # the plan's output type is T
        if result.status is _COMPLETED:
            return result
        end = run.machine.stop_event
        refused = end is not None and end.refused
        stopped = result.status is Status.STOPPED and self.plan.output is None
        if (stopped and not refused) or result.status is Status.WAITING:
            return result
        raise build_failure(run, result)
