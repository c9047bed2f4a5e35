"""Runs that wait for somebody: what they ask, an answer for them, and the end of waiting.

A run that is under way in this process is handed its answer. For any other the answer is kept in
the journal, where the run finds it when it goes on. Nothing here may run a tool or ask a model.
"""

from __future__ import annotations

import asyncio

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import QuestionAnswered
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import QuestionLog
from holdfast.core.questions import AnyAnswer, AnyQuestion, plain_form, validate_answer
from holdfast.core.recorded_questions import restore_question
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.finalize import finalize_left_turn
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.questions.question_records import find_answerable
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.session_pool import SessionPool

_PATIENCE = 5.0  # seconds; a run that goes on in another process cannot be told from here


def list_open_questions(log: QuestionLog) -> tuple[AnyQuestion, ...]:
    """What waits for an answer, in the order of asking."""
    return tuple(restore_question(asked) for asked in log.open_questions)


class Answering:
    """The runs of one agent, as far as they wait.

    Args:
        plan: the agent, compiled.
        session_pool: its sessions.
        journal: where its runs are kept; None when they do not outlive this process.
    """

    __slots__ = ("_journal", "_plan", "_session_pool", "active_turns")

    def __init__(self, plan: AgentPlan, session_pool: SessionPool, journal: Journal | None) -> None:
        self._plan = plan
        self._session_pool = session_pool
        self._journal = journal
        self.active_turns: dict[str, ActiveTurn] = {}
        """The runs that this agent drives now, by their ids."""

    async def questions(self, run_id: str) -> tuple[AnyQuestion, ...]:
        """See `Agent.questions`."""
        run = self.active_turns.get(run_id)
        machine = run.machine if run is not None else await self._load_machine(run_id)
        return list_open_questions(machine.questions)

    async def _load_machine(self, run_id: str) -> SessionMachine:
        """The run as the journal tells it, whoever drives it."""
        machine = SessionMachine()
        for record in await self._session_pool.journal.read(run_id):
            machine.apply(record.event)
        _check_run_exists(machine, run_id)
        return machine

    async def answer(self, run_id: str, answer: AnyAnswer) -> Receipt:
        """See `Agent.answer`."""
        run = self.active_turns.get(run_id)
        if run is not None:
            receipt = await _deliver_answer(run, answer)
            if receipt is not None:
                return receipt
        async with self._session_pool.open_session(run_id, max_wait=_PATIENCE) as opened:
            machine = opened.machine
            _check_run_exists(machine, run_id)
            at = self._plan.clock.now()
            request = find_answerable(machine, answer.key, at)
            if isinstance(request, Receipt):
                return request
            validate_answer(request, answer.value)
            run = ActiveTurn(self._plan, run_id, opened, TurnContext())
            value = plain_form(answer.value)
            await run.log.commit(QuestionAnswered(answer.key, at, value, deferred=True))
            return Receipt()

    async def abandon(self, run_id: str) -> Result[object]:
        """See `Agent.abandon`."""
        async with self._session_pool.open_session(run_id) as opened:
            _check_run_exists(opened.machine, run_id)
            context = TurnContext(child_journal=self._journal)
            run = ActiveTurn(self._plan, run_id, opened, context)
            if opened.machine.phase is not Phase.IDLE:
                await finalize_left_turn(run)
            return run.build_result()


async def _deliver_answer(run: ActiveTurn, answer: AnyAnswer) -> Receipt | None:
    giving = run.questions.deliver_answer(run, answer)
    if asyncio.get_running_loop() is run.loop:
        return await giving
    # It is kept there, and nobody would wake this loop.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(giving, run.loop))


def _check_run_exists(machine: SessionMachine, run_id: str) -> None:
    if not machine.turn:
        raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
