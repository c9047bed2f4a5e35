"""Open questions of runs: lists them, answers them, and abandons a run that waits.

An answer goes directly to a run that is active in this process. For any other run it is saved in
the journal and used when the run continues. This module must never run a tool or call a model.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable

from holdfast.core.errors import ConfigurationError
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import QuestionLog, restore_question
from holdfast.core.questions import AnyAnswer, AnyQuestion, Approved, PermissionQuestion
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.finalize import Parking, finalize_left_turn
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.questions.question_checks import check_answer
from holdfast.runtime.questions.question_records import answer_event, find_answerable
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.turn_state.channel import require_asyncio

_PATIENCE = 5.0  # seconds to wait for a run that is busy in another process


def list_open_questions(log: QuestionLog, run_id: str) -> tuple[AnyQuestion, ...]:
    """Return the open questions of a run, in the order in which they were asked."""
    return tuple(restore_question(asked, run_id) for asked in log.open_questions)


class Answering:
    """Handles the questions of the runs of one agent.

    Args:
        plan: the compiled agent.
        session_pool: the sessions of the agent.
        journal: where the runs are saved; None when they end with this process.
    """

    __slots__ = ("_journal", "_plan", "_session_pool", "active_turns")

    def __init__(self, plan: AgentPlan, session_pool: SessionPool, journal: Journal | None) -> None:
        self._plan = plan
        self._session_pool = session_pool
        self._journal = journal
        self.active_turns: dict[str, ActiveTurn] = {}
        """The runs that this agent drives now, by run id."""

    def register_turn(self, run: ActiveTurn) -> None:
        """Register a turn while it is in progress, so that answers are delivered to it directly."""
        self.active_turns[run.run_id] = run

    def unregister_turn(self, run: ActiveTurn) -> Awaitable[None]:
        """Note that a turn is no longer in progress; await the end of its questions."""
        del self.active_turns[run.run_id]
        return run.questions.close()

    def interrupt_turn(self, run_id: str) -> None:
        """End the turn of a run that this agent drives at the next possible point, if there is one."""
        run = self.active_turns.get(run_id)
        if run is not None:
            run.hooks.interrupt()

    async def questions(self, run_id: str) -> tuple[AnyQuestion, ...]:
        """See `Agent.questions`."""
        require_asyncio()
        run = self.active_turns.get(run_id)
        machine = run.machine if run is not None else await self._load_machine(run_id)
        return list_open_questions(machine.questions, run_id)

    async def _load_machine(self, run_id: str) -> SessionMachine:
        """Load the state of the run from the journal, even if another process drives the run."""
        machine = SessionMachine()
        for record in await self._session_pool.journal.read(run_id):
            machine.apply(record.event)
        check_run_exists(machine, run_id)
        return machine

    async def answer(self, run_id: str, answer: AnyAnswer) -> Receipt:
        """See `Agent.answer`."""
        require_asyncio()
        run = self.active_turns.get(run_id)
        if run is not None:
            receipt = await _deliver_answer(run, answer)
            if receipt is not None:
                return receipt
        async with self._session_pool.open_session(run_id, max_wait=_PATIENCE) as opened:
            machine = opened.machine
            check_run_exists(machine, run_id)
            at = self._plan.clock.now()
            question = find_answerable(machine, run_id, answer.key, at)
            if isinstance(question, Receipt):
                return question
            _refuse_unchecked_arguments(self._plan, machine, question, answer)
            accepted = check_answer(self._plan, question, answer)
            if isinstance(accepted, Receipt):
                return accepted
            run = ActiveTurn(self._plan, run_id, opened, TurnContext())
            event = answer_event(accepted, at, deferred=True)
            await run.log.commit(event, act=accepted.act)
            return Receipt()

    async def abandon(
        self,
        run_id: str,
        by: str = "",
        parking: Parking | None = None,
        max_wait: float = math.inf,
    ) -> Result[object]:
        """See `Agent.abandon`.

        Args:
            run_id: the run.
            by: who gives the turn up.
            parking: why a queue gives it up.
            max_wait: seconds to wait for a turn that is driven elsewhere; then SessionBusyError is raised.
        """
        require_asyncio()
        async with self._session_pool.open_session(run_id, max_wait=max_wait) as opened:
            check_run_exists(opened.machine, run_id)
            context = TurnContext(child_journal=self._journal)
            run = ActiveTurn(self._plan, run_id, opened, context)
            if opened.machine.phase is not Phase.IDLE:
                await finalize_left_turn(run, by, parking)
            return run.build_result()


def _refuse_unchecked_arguments(
    plan: AgentPlan, machine: SessionMachine, question: AnyQuestion, answer: AnyAnswer
) -> None:
    """Raise ConfigurationError for edited arguments of a tool that only the turn itself has."""
    if not isinstance(question, PermissionQuestion) or not isinstance(answer.value, Approved):
        return
    own = machine.options.fingerprints if machine.options is not None else {}
    may_have_others = bool(plan.toolsets) or "tools" in own or "toolsets" in own
    is_known = plan.registry.get(question.tool) is not None
    if answer.value.arguments is not None and may_have_others and not is_known:
        raise ConfigurationError(
            "arguments",
            f"cannot be checked: {question.tool!r} is a tool of this turn, and not of the agent",
            fix="Approve the call as it is or deny it, or answer in the process that runs the turn",
        )


async def _deliver_answer(run: ActiveTurn, answer: AnyAnswer) -> Receipt | None:
    giving = run.questions.deliver_answer(run, answer)
    if asyncio.get_running_loop() is run.loop:
        return await giving
    # The answer is saved on the loop of the run, whose futures cannot wake this loop.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(giving, run.loop))


def check_run_exists(machine: SessionMachine, run_id: str) -> None:
    """Raise ConfigurationError unless the journal has an event of this run."""
    if not machine.turn:
        raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
