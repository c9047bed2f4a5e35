"""Runs that wait for somebody: what they ask, an answer for them, and the end of waiting.

A run that is under way in this process is handed its answer. For any other the answer is kept in
the journal, where the run finds it when it goes on. Nothing here may run a tool or ask a model.
"""

from __future__ import annotations

import asyncio

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import QuestionAnswered
from holdfast.core.kept_request import kept_request
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import QuestionLog
from holdfast.core.requests import AnyAnswer, AnyRequest, checked, plain_form
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.conversations import Conversations
from holdfast.runtime.kept_questions import answerable
from holdfast.runtime.open_question import Receipt
from holdfast.runtime.plan import Plan
from holdfast.runtime.result import Result
from holdfast.runtime.run import Run
from holdfast.runtime.settle import settle_left

_PATIENCE = 5.0  # seconds; a run that goes on in another process cannot be told from here


def open_requests(log: QuestionLog) -> tuple[AnyRequest, ...]:
    """What waits for an answer, in the order of asking."""
    return tuple(kept_request(asked) for asked in log.open)


class Answering:
    """The runs of one agent, as far as they wait.

    Args:
        plan: the agent, compiled.
        conversations: its sessions.
        journal: where its runs are kept; None when they do not outlive this process.
    """

    __slots__ = ("_conversations", "_journal", "_plan", "under_way")

    def __init__(self, plan: Plan, conversations: Conversations, journal: Journal | None) -> None:
        self._plan = plan
        self._conversations = conversations
        self._journal = journal
        self.under_way: dict[str, Run] = {}
        """The runs that this agent drives now, by their ids."""

    async def questions(self, run_id: str) -> tuple[AnyRequest, ...]:
        """See `Agent.questions`."""
        run = self.under_way.get(run_id)
        machine = run.machine if run is not None else await self._read(run_id)
        return open_requests(machine.questions)

    async def _read(self, run_id: str) -> RunMachine:
        """The run as the journal tells it, whoever drives it."""
        machine = RunMachine(output=self._plan.output)
        for record in await self._conversations.journal.read(run_id):
            machine.apply(record.event)
        _check_known(machine, run_id)
        return machine

    async def answer(self, run_id: str, answer: AnyAnswer) -> Receipt:
        """See `Agent.answer`."""
        run = self.under_way.get(run_id)
        if run is not None:
            receipt = await _given(run, answer)
            if receipt is not None:
                return receipt
        async with self._conversations.turn(run_id, patience=_PATIENCE) as entry:
            machine = entry.machine
            _check_known(machine, run_id)
            at = self._plan.clock.now()
            request = answerable(machine, answer.key, at)
            if isinstance(request, Receipt):
                return request
            checked(request, answer.value)
            run = Run(self._plan, run_id, machine, entry.log)
            run.folds = entry.folds
            value = plain_form(answer.value)
            await run.commit(QuestionAnswered(answer.key, at, value, later=True))
            return Receipt()

    async def abandon(self, run_id: str) -> Result[object]:
        """See `Agent.abandon`."""
        async with self._conversations.turn(run_id) as entry:
            _check_known(entry.machine, run_id)
            run = Run(self._plan, run_id, entry.machine, entry.log)
            run.folds, run.beside = entry.folds, self._journal
            if entry.machine.phase is not Phase.IDLE:
                await settle_left(run)
            return run.result()


async def _given(run: Run, answer: AnyAnswer) -> Receipt | None:
    giving = run.questions.give(run, answer)
    if asyncio.get_running_loop() is run.loop:
        return await giving
    # It is kept there, and nobody would wake this loop.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(giving, run.loop))


def _check_known(machine: RunMachine, run_id: str) -> None:
    if not machine.turn:
        raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
