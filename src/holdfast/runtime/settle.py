"""Ends a turn: as it came to its end, or because it was stopped from outside.

What agents left open that are tools of the turn is ended before it, so that nothing of it is open
when it is over. This module must never run a tool or ask a model: all that is left is to write down
how it ended.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from holdfast.core.effects import (
    CloseTurn,
    RunTool,
    attempts_within,
    interrupted_key,
    run_within,
)
from holdfast.core.events import Status, TurnClosed, TurnInterrupted
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.conversations import Conversations
from holdfast.runtime.hooked_live import as_shown
from holdfast.runtime.plan import Plan
from holdfast.runtime.run import Run
from holdfast.runtime.spending import CallNotes
from holdfast.runtime.subagent import Subagent, agent_of, upward
from holdfast.runtime.tool_call import outlet_of


async def close_turn(run: Run, effect: CloseTurn) -> TurnClosed:
    """End the turn; one whose last hooks failed has failed."""
    if run.hooks is not None and (failure := run.hooks.failure) and effect.error is None:
        run.error = failure
        info = failure.info.public()
        return TurnClosed(effect.key, run.plan.clock.now(), Status.FAILED, info)
    return TurnClosed(effect.key, run.plan.clock.now(), effect.status, effect.error)


async def settle(run: Run, reason: Literal["cancelled", "deadline"]) -> None:
    """Close the turn, unless a recovery drives it and is itself what was stopped.

    Args:
        run: whose turn; `started` says which tools had begun, so that their outcome is unknown.
        reason: who stopped it.

    Raises:
        TurnLeftOpen: a recovery drives the turn, whose time went into calls that failed.
    """
    if (recovery := run.recovery) is not None:
        if reason == "cancelled" and recovery.recovery.is_stopping:
            return
        recovery.check_stop(run.machine, reason)
    if run.machine.phase not in (Phase.IDLE, Phase.CLOSING):
        await end_within(run)
        key, begun = interrupted_key(run.machine.turn), tuple(sorted(run.started))
        at = run.plan.clock.now()
        await run.commit(
            TurnInterrupted(
                key, at, reason, begun, as_shown(run, run.cut.partial), run.spent_in_tools()
            )
        )
    for effect in run.machine.pending():
        if isinstance(effect, CloseTurn):
            await run.commit(await close_turn(run, effect), effect)


async def settle_left(run: Run) -> None:
    """Close a turn that another process, or a failing journal, left: what had begun is in doubt."""
    machine = run.machine
    if machine.begun:
        run.left.update(effect.key for effect in machine.pending())
        run.started.update(run.left - machine.questions.unbegun)
    await settle(run, "cancelled")


async def end_within(run: Run) -> None:
    """End what agents in tools of the turn left open: the turn ends without them."""
    run.check_kept()  # a turn whose end cannot be kept goes on later, and they with it
    for effect in run.machine.pending():
        # An agent that is under way ends its own turn when it is cancelled.
        if isinstance(effect, RunTool) and effect.key in run.left and run.beside is not None:
            await _end_agent(run, effect, run.beside)


async def _end_agent(run: Run, effect: RunTool, journal: Journal) -> None:
    agent = agent_of(run.plan.registry.get(effect.call.name))
    plan = agent.plan if agent is not None else _unknown(run.plan)
    channel = upward(outlet_of(run.env), effect.key, effect.call.name)
    conversations = Conversations(journal, plan.output, plan.chain)
    for run_id in attempts_within(run_within(run.run_id, effect.key)):
        if not await journal.read(run_id):
            return
        async with conversations.turn(run_id) as entry:
            one = Run(plan, run_id, entry.machine, entry.log, channel)
            one.folds, one.beside = entry.folds, journal
            if one.machine.phase is not Phase.IDLE:
                await settle_left(one)
            _count(run, effect, one, agent)


def _unknown(plan: Plan) -> Plan:
    """In place of the plan of an agent that this one does not know any more."""
    return dataclasses.replace(plan, output=None, chain=None, observers=())


def _count(run: Run, effect: RunTool, one: Run, agent: Subagent[object] | None) -> None:
    """What an agent has spent counts for its caller, unless it has a budget of its own."""
    if agent is None or not agent.own_budget:
        notes = run.notes.setdefault(effect.key, CallNotes(run.tokens_left, run.works_for))
        notes.take_over(one.run_id, one.machine.usage)
