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
    interrupted_key,
    nested_run_id,
    nested_run_ids,
)
from holdfast.core.events import Status, TurnClosed, TurnInterrupted
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.live_text import filter_partial
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.subagent import Subagent, agent_of, make_child_channel
from holdfast.runtime.tool_attempt import make_event_sink
from holdfast.runtime.usage_meter import UsageMeter


async def close_turn(run: ActiveTurn, effect: CloseTurn) -> TurnClosed:
    """End the turn; one whose last hooks failed has failed."""
    if run.hooks is not None and (failure := run.hooks.failure) and effect.error is None:
        run.error = failure
        info = failure.info.to_public()
        return TurnClosed(effect.key, run.plan.clock.now(), Status.FAILED, info)
    return TurnClosed(effect.key, run.plan.clock.now(), effect.status, effect.error)


async def finalize_turn(run: ActiveTurn, reason: Literal["cancelled", "deadline"]) -> None:
    """Close the turn, unless a recovery drives it and is itself what was stopped.

    Args:
        run: whose turn; the outcome of the tools that have started is unknown.
        reason: who stopped it.

    Raises:
        TurnLeftOpen: a recovery drives the turn, whose time went into calls that failed.
    """
    if (recovery := run.recovery) is not None:
        if reason == "cancelled" and recovery.recovery.is_stopping:
            return
        recovery.check_stop(run.machine, reason)
    if run.machine.phase not in (Phase.IDLE, Phase.CLOSING):
        await finalize_children(run)
        key, begun = interrupted_key(run.machine.turn), run.effects.started_keys()
        at = run.plan.clock.now()
        await run.log.commit(
            TurnInterrupted(
                key,
                at,
                reason,
                begun,
                filter_partial(run, run.partial_reply.reply),
                run.sum_tool_usage(),
            )
        )
    for effect in run.machine.pending_effects():
        if isinstance(effect, CloseTurn):
            await run.log.commit(await close_turn(run, effect), effect)


async def finalize_left_turn(run: ActiveTurn) -> None:
    """Close a turn that another process, or a failing journal, left: what had begun is in doubt."""
    machine = run.machine
    if machine.has_begun_tools:
        left = {effect.key for effect in machine.pending_effects()}
        run.effects.leave(left)
        for key in left - machine.questions.unstarted_askers:
            run.effects.start(key)
    await finalize_turn(run, "cancelled")


async def finalize_children(run: ActiveTurn) -> None:
    """End what agents in tools of the turn left open: the turn ends without them."""
    run.log.raise_if_failed()  # a turn whose end cannot be kept goes on later, and they with it
    for effect in run.machine.pending_effects():
        # An agent that is under way ends its own turn when it is cancelled.
        if (
            isinstance(effect, RunTool)
            and run.effects[effect.key].is_left
            and run.context.child_journal is not None
        ):
            await _finalize_child(run, effect, run.context.child_journal)


async def _finalize_child(run: ActiveTurn, effect: RunTool, journal: Journal) -> None:
    agent = agent_of(run.plan.registry.get(effect.call.name))
    plan = agent.plan if agent is not None else _make_placeholder(run.plan)
    channel = make_child_channel(make_event_sink(run.env), effect.key, effect.call.name)
    sessions = SessionPool(journal, plan.chain)
    context = TurnContext(channel=channel, child_journal=journal)
    for run_id in nested_run_ids(nested_run_id(run.run_id, effect.key)):
        if not await journal.read(run_id):
            return
        async with sessions.open_session(run_id) as opened:
            child = ActiveTurn(plan, run_id, opened, context)
            if child.machine.phase is not Phase.IDLE:
                await finalize_left_turn(child)
            _meter_child(run, effect, child, agent)


def _make_placeholder(plan: AgentPlan) -> AgentPlan:
    """In place of the plan of an agent that this one does not know any more."""
    return dataclasses.replace(plan, output=None, chain=None, observers=())


def _meter_child(
    run: ActiveTurn, effect: RunTool, child: ActiveTurn, agent: Subagent[object] | None
) -> None:
    """What an agent has spent counts for its caller, unless it has a budget of its own."""
    if agent is None or not agent.own_budget:
        notes = run.usage_meters.setdefault(
            effect.key, UsageMeter(run.tokens_left, run.context.parent_meter)
        )
        notes.take_over(child.run_id, child.machine.usage)
