"""Runs an agent: holds its plan and its open sessions, and runs every turn in the same way.

A new turn, a turn of a session and a resumed turn differ only in the state that they begin with.
This module must never perform an effect, which is the task of the driver, or hold the state of a
run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.effects import is_nested_run, nested_run_ids
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.session_state import Phase
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.journal.journal_errors import RequestExistsError, RunChangedError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, RunEntry
from holdfast.middleware.folds import refold_session
from holdfast.models.prices import Prices
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.arguments.changed_plans import ChangedPlans, make_turn
from holdfast.runtime.arguments.run_keywords import (
    RECOVER_NAMES,
    RESUME_NAMES,
    RecoverKeywords,
    ResumeKeywords,
    RunKeywords,
    check_names,
)
from holdfast.runtime.around_turn import (
    add_default_deps,
    call_after_turn,
    continue_turn,
    find_deps,
    find_last_try,
    finish_turn,
    is_function_of_run,
    is_latest_turn,
    replay_turn,
    start_turn,
    try_again,
)
from holdfast.runtime.compile import AgentKeywords, compile_plan
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.finalize import close_left_turn
from holdfast.runtime.lifespans import NO_RESOURCES, ResourcePool
from holdfast.runtime.open_runs.answering import Answering, check_run_exists
from holdfast.runtime.open_runs.recovery import (
    DEFAULT_PARALLEL,
    DEFAULT_SECONDS,
    RecoveredRun,
    RecoveryProgress,
    RecoveryTime,
    find_time_to_continue,
    read_time_to_continue,
    recover_each,
    recover_one,
)
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.question_checks import check_handler, check_on_wait
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.session_pool import (
    LeaseKind,
    LocalLease,
    NewRun,
    OpenSession,
    SessionPool,
    check_on_busy,
    resolve_journal,
)
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.runtime.subagent import ChildRun, Subagent, subagent_tool
from holdfast.runtime.turn_state.channel import Channel, require_asyncio
from holdfast.runtime.turn_state.turn_input import (
    ContinuedTurn,
    Prompt,
    TurnInput,
    read_continued_turn,
)
from holdfast.telemetry.observers import CheckedObserver, join_observers
from holdfast.tools.tool import Tool

if TYPE_CHECKING:
    from holdfast.runtime.sessions.agent_sessions import BackgroundPruning

T = TypeVar("T", default=str)

# Access to an enum member is slow, and this one is needed for every turn.
_IDLE = Phase.IDLE


class Engine(Generic[T]):
    """Runs the turns of one agent.

    Args:
        keywords: all keywords of the agent.

    Raises:
        ConfigurationError: a keyword is invalid. The error names the argument and the fix.
    """

    __slots__ = (
        "_on_question",
        "_plans",
        "answering",
        "interrupts",
        "journal",
        "max_wait",
        "on_wait",
        "plan",
        "pruning",
        "resources",
        "session_pool",
    )

    def __init__(self, keywords: AgentKeywords) -> None:
        self.plan = compile_plan(keywords)
        deps = self.plan.default_deps
        if deps is not None and not is_function_of_run(deps, self.plan.deps_type):
            self.plan.check_deps(deps)
        self._plans = ChangedPlans(self.plan, keywords)
        self.resources = ResourcePool()
        self._on_question = check_handler(keywords["on_question"])
        self.on_wait = check_on_wait(keywords["on_wait"], keywords["journal"])
        self.max_wait = check_on_busy(keywords["on_busy"])
        self.interrupts = keywords["on_busy"] == "interrupt"
        self.journal = journal = resolve_journal(keywords["journal"])
        self.session_pool = SessionPool(
            journal or MemoryJournal(), self.plan.chain, keywords["session_cache"]
        )
        self.answering = Answering(self.plan, self.session_pool, journal)
        self.pruning: BackgroundPruning | None = None
        retention = keywords["retention"]
        if retention is not None:
            self.require_journal("delete old sessions from")
            from holdfast.runtime.sessions.agent_sessions import make_pruning  # only with retention

            self.pruning = make_pruning(self.plan, self.session_pool, retention)

    def with_service(
        self, prices: Prices | None, observers: tuple[CheckedObserver, ...] = ()
    ) -> Engine[T]:
        """Return an engine of the same agent with what its service gives all of its agents.

        Args:
            prices: prices for an agent that has none of its own.
            observers: observers besides those of the agent.
        """
        prices = self.plan.prices or prices
        observers = join_observers(self.plan.observers, observers)
        if prices is self.plan.prices and observers is self.plan.observers:
            return self
        copied = copy(self)
        copied.plan = dataclasses.replace(self.plan, prices=prices, observers=observers)
        copied._plans = self._plans.with_plan(copied.plan)  # noqa: SLF001  # REASON: its own copy
        return copied

    def make_turn(self, prompt: Prompt, output: object, keywords: RunKeywords[Any]) -> TurnInput:
        """Build the input of a turn from the arguments of `Agent.run`. Raises ConfigurationError."""
        return make_turn(self._plans, prompt, output, keywords)

    def stream(self, turn: TurnInput) -> RunStream[Any]:
        """Run a turn as a stream."""
        return self._open_stream(partial(self.run, turn), turn.plan or self.plan)

    def _open_stream(
        self, work: Callable[[Channel, QuestionBroker], Awaitable[Result[T]]], plan: AgentPlan
    ) -> RunStream[T]:
        questions = self._make_broker(has_reader=True)
        output = plan.output.schema if plan.output is not None else None
        return RunStream(lambda channel: work(channel, questions), questions, output)

    def _make_broker(self, *, has_reader: bool = False) -> QuestionBroker:
        return QuestionBroker(self._on_question, has_reader=has_reader, on_wait=self.on_wait)

    def continue_turn(
        self, method: str, run_id: str, output: object, keywords: ResumeKeywords[Any]
    ) -> ContinuedTurn:
        """Check the arguments of a method that continues a turn. Raises ConfigurationError."""
        check_names(method, keywords, RESUME_NAMES)
        return self._check_continued(read_continued_turn(run_id, output, keywords))

    def _check_continued(self, turn: ContinuedTurn) -> ContinuedTurn:
        if not is_function_of_run(turn.deps, self.plan.deps_type):
            self.plan.check_deps(turn.deps)
        return turn

    def resume_stream(self, turn: ContinuedTurn) -> RunStream[Any]:
        """Resume a turn as a stream; see `Agent.resume_stream`."""
        plan = self._plans.find_plan(turn.changes)
        return self._open_stream(partial(self.resume, turn), plan)

    async def resume(
        self,
        turn: ContinuedTurn,
        channel: Channel | None = None,
        questions: QuestionBroker | None = None,
    ) -> Result[Any]:
        """Resume an interrupted or suspended turn; see `Agent.resume`.

        Args:
            turn: the run, and the arguments of the caller.
            channel: as for `run`.
            questions: as for `run`.
        """
        require_asyncio()
        journal, run_id = self.require_journal("resume from"), turn.run_id
        context = TurnContext(
            channel=channel,
            questions=self._make_broker() if questions is None else questions,
            session=run_id,
            child_journal=journal,
        )
        async with self.session_pool.open_session(run_id, max_wait=self.max_wait) as opened:
            check_run_exists(opened.machine, run_id)
            run = await self.restore_run(turn, opened, context)
            return await self._continue_turn(run, may_try_again=True)

    async def restore_run(
        self,
        turn: ContinuedTurn,
        opened: OpenSession,
        context: TurnContext,
        *,
        only_needed: bool = False,
    ) -> ActiveTurn:
        """Return a turn that continues, with the plan and the options that it began with."""
        saved = opened.machine.options
        plan = self._plans.restore_plan(saved, turn.changes, only_needed=only_needed)
        deps = await find_deps(turn.run_id, turn.deps, saved or NO_OPTIONS, plan)
        context = msgspec.structs.replace(context, deps=deps, options=saved or NO_OPTIONS)
        if plan.chain is not self.plan.chain:
            events = [record.event for record in await opened.log.read(turn.run_id)]
            opened.folds = refold_session(plan.chain.new_folds(), events)
        return ActiveTurn(plan, turn.run_id, opened, context)

    def require_journal(self, action: str) -> Journal:
        """Return the journal. Raises ConfigurationError if there is none for this action."""
        if self.journal is None:
            raise ConfigurationError(
                "journal", f"there is none to {action}", fix="Pass journal= to the Agent"
            )
        return self.journal

    async def open_runs(self, timing: RecoveryTime | None = None) -> list[RunEntry]:
        """List the runs that are open and not in progress; see `Agent.open_runs`."""
        require_asyncio()
        journal = self.require_journal("recover from")
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
        self, output: object, keywords: RecoverKeywords[Any]
    ) -> list[RecoveredRun[Any]]:
        """Resume every interrupted run of this agent; see `Agent.recover`."""
        require_asyncio()
        check_names("Agent.recover", keywords, RECOVER_NAMES)
        turn = self._check_continued(read_continued_turn("", output, keywords))
        from holdfast.runtime.open_runs.turn_entries import is_queued_turn

        journal = self.require_journal("recover from")
        timing = RecoveryTime(keywords.get("seconds", DEFAULT_SECONDS))
        chosen = keywords.get("runs")
        check_value("runs", chosen, Sequence[str] | None)
        runs = [
            entry.run
            for entry in await self.open_runs(timing)
            if chosen is None or entry.run in chosen
        ]

        async def resume(progress: RecoveryProgress[Any]) -> None:
            due_at = await read_time_to_continue(journal, progress.run_id)
            if due_at > self.plan.clock.now() or await is_queued_turn(journal, progress.run_id):
                return  # of a queued turn, the inbox decides whether it continues
            context = TurnContext(questions=self._make_broker(), recovery=progress.recovery)
            this = msgspec.structs.replace(turn, run_id=progress.run_id)
            await self._recover_run(this, context, progress)

        return await recover_each(runs, resume, keywords.get("parallel", DEFAULT_PARALLEL), timing)

    async def _recover_run(
        self,
        turn: ContinuedTurn,
        context: TurnContext,
        progress: RecoveryProgress[Any],
        max_wait: float = 0,
    ) -> None:
        """Continue a turn that was interrupted, with its progress; any other stays as it is."""
        run_id, journal = turn.run_id, self.require_journal("recover from")
        context = msgspec.structs.replace(context, session=run_id, child_journal=journal)
        async with self.session_pool.open_session(run_id, max_wait=max_wait) as opened:
            if find_time_to_continue(opened.machine) <= self.plan.clock.now():
                progress.run = run = await self.restore_run(turn, opened, context, only_needed=True)
                progress.result = await self._continue_turn(run)

    def recover_stream(self, run_id: str) -> RunStream[Any]:
        """Continue a turn that was interrupted as a stream; any other has no items and no result.

        A failure that is not the turn's own leaves it open, as in `recover`.
        """
        resume = partial(self._recover_run, ContinuedTurn(run_id=run_id))
        return self._open_stream(partial(recover_one, resume, run_id), self.plan)

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
    ) -> Coroutine[object, object, Result[Any]]:
        """Run a turn; if the journal has a turn with its request, finish and return that one.

        Args:
            turn: the input of the turn.
            channel: receives the events and notices of the turn; None when there is no reader.
            questions: handles the questions of the turn; None creates a broker without a reader.
        """
        if turn.request is None:
            return self._run_new(turn, channel, questions)
        return self._find_or_run(turn, turn.request, channel, questions)

    async def _find_or_run(
        self,
        turn: TurnInput,
        request: str,
        channel: Channel | None,
        questions: QuestionBroker | None,
    ) -> Result[Any]:
        """Run a turn, unless the journal has a turn with its request; finish and return that one."""
        require_asyncio()
        journal = self.require_journal("find the request in")
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
    ) -> Result[Any]:
        """Return the result of the turn that has the request, after it has ended."""
        run_id, key = known
        if turn.session not in (None, run_id):
            raise ConfigurationError(
                "request",
                f"{turn.request!r} belongs to a turn of another session",
                fix="Use a new request for each message",
            )
        context = TurnContext(
            channel=channel, questions=questions, session=turn.session, child_journal=self.journal
        )
        this = ContinuedTurn(run_id=run_id, deps=turn.deps, changes=turn.changes)
        async with self.session_pool.open_session(run_id, max_wait=self.max_wait) as opened:
            records = await opened.log.read(run_id)
            key = find_last_try(records, key)
            if is_latest_turn(opened.machine, key):
                return await self._continue_turn(await self.restore_run(this, opened, context))
        past = self.session_pool.make_session(MemoryJournal())
        past.machine = replay_turn(records, key)
        return finish_turn(await self.restore_run(this, past, context))

    async def _run_new(
        self,
        turn: TurnInput,
        channel: Channel | None,
        questions: QuestionBroker | None,
    ) -> Result[Any]:
        """Open the session of a turn, or a run for the turn alone, and run the turn."""
        require_asyncio()
        plan = turn.plan or self.plan
        context = TurnContext(
            channel=channel,
            questions=self._make_broker() if questions is None else questions,
            session=turn.session,
            deps=turn.deps,
            history=turn.history if self.journal is not None else (),
            limits=turn.limits,
            parent=turn.parent,
            child_journal=self.journal,
            request=turn.request or "",
            options=turn.options or NO_OPTIONS,
        )
        pool = self.session_pool
        if plan.chain is not self.plan.chain:  # with rules of a caller, or for skills of this turn
            pool = SessionPool(pool.journal, plan.chain)
        begins_turn = pool.is_shared and plan.begins_directly
        if self.interrupts and turn.session is not None:
            self.answering.interrupt_turn(turn.session)
        while True:
            run_id = turn.session or new_run_id()
            try:
                async with self._open_run(turn, run_id, pool, begins_turn=begins_turn) as opened:
                    if turn.session is not None and len(turn.history):
                        opened.begin_history(turn.history)
                    context = await add_default_deps(context, run_id, plan)
                    run = ActiveTurn(plan, run_id, opened, context)
                    if run.machine.phase is not _IDLE:
                        await close_left_turn(run)
                    return await self._drive(run, partial(start_turn, run, turn.message))
            except RunChangedError:
                # Another process changed the session. Nothing was saved or called: open it again.
                if not begins_turn:
                    raise
                begins_turn = False

    def _open_run(
        self, turn: TurnInput, run_id: str, pool: SessionPool, *, begins_turn: bool
    ) -> AbstractAsyncContextManager[OpenSession]:
        """Return the context manager that opens the run of a turn; see `SessionPool.open_session` for `begins_turn`."""
        if turn.session is not None:
            return pool.open_session(run_id, max_wait=self.max_wait, begins_turn=begins_turn)
        lease: LeaseKind | None = "prepared" if begins_turn else "claimed"
        lease = None if self.journal is None else lease
        return NewRun(pool, run_id, turn.history, lease=lease)

    async def _drive(
        self,
        run: ActiveTurn,
        begin: Callable[[], Awaitable[None]],
        *,
        is_continued: bool = False,
    ) -> Result[Any]:
        """Begin or continue a turn, drive it to its end and return its result."""
        if run.plan.lifespans and run.resources is NO_RESOURCES:
            async with self.resources.keep_open(run.plan.lifespans) as run.resources:
                return await self._drive(run, begin, is_continued=is_continued)
        is_over = is_continued and run.machine.phase is _IDLE
        if run.scopes is not None and run.drive is None and not is_over:
            with run.enter_drive(is_continued=is_continued):
                return await self._drive(run, begin, is_continued=is_continued)
        self.answering.register_turn(run)
        if run.context.channel is not None:
            run.context.channel.saved_before = run.machine.event_count
        try:
            await begin()
            await drive_turn(run)
            await call_after_turn(run)
        finally:
            if run.shutdown is not None:
                run.shutdown.forget_run(run.run_id)
            await self.answering.unregister_turn(run)
        if self.pruning is not None:
            self.pruning.begin_if_due()
        return finish_turn(run)

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
            turn = msgspec.structs.replace(turn, plan=plan)
            return await self.run(turn, channel, questions)
        context = TurnContext(
            channel=channel,
            questions=questions,
            deps=turn.deps,
            limits=turn.limits,
            options=turn.options or NO_OPTIONS,
            parent=turn.parent,
            child_journal=child_run.journal,
            recovery=child_run.recovery,
        )
        context = await add_default_deps(context, child_run.run_id, plan)
        sessions = SessionPool(child_run.journal, plan.chain)
        for run_id in nested_run_ids(child_run.run_id):
            async with sessions.open_session(run_id) as opened:
                run = ActiveTurn(plan, run_id, opened, context)
                if context.parent_meter is not None:
                    machine = opened.machine
                    context.parent_meter.take_over(run_id, machine.usage, machine.cost)
                # A cancelled run was one attempt of the call; the next attempt has another run id.
                if opened.machine.status is not Status.CANCELLED:
                    return await self._continue_turn(run, turn.message)
        raise AssertionError("unreachable")

    async def _continue_turn(
        self, run: ActiveTurn, message: Message | None = None, *, may_try_again: bool = False
    ) -> Result[Any]:
        """Continue a turn, or start it with the message if the journal does not have it.

        Args:
            run: the turn.
            message: the message of a turn that may not have begun.
            may_try_again: whether a turn that has failed is tried again.
        """
        if message is not None and not run.machine.turn:
            begin = partial(start_turn, run, message)
        elif may_try_again and run.machine.can_try_again:
            begin = partial(try_again, run)
        else:
            return await self._drive(run, partial(continue_turn, run), is_continued=True)
        return await self._drive(run, begin)


def copy_on_journal(engine: Engine[T], journal: Journal) -> Engine[T]:
    """Return an engine of the same agent on another journal."""
    copied = copy(engine)
    copied.journal = journal
    copied.session_pool = SessionPool(journal, engine.plan.chain, engine.session_pool.cache)
    copied.answering = Answering(engine.plan, copied.session_pool, journal)
    copied.pruning = None  # of the other journal
    return copied
