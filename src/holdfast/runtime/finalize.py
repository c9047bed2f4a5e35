"""Closes a turn, either at its normal end or because it was cancelled or reached its deadline.

The open turns of its subagents are closed first, so that nothing stays open when the turn ends.
This module must never run a tool or call a model; it only saves how the turn ended.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from msgspec import Struct

from holdfast.core.deltas import TextDelta
from holdfast.core.effects import (
    CloseTurn,
    CopyResult,
    RunTool,
    interrupted_key,
    nested_run_id,
    nested_run_ids,
)
from holdfast.core.errors import WaitingError
from holdfast.core.events import Status, TurnClosed, TurnInterrupted
from holdfast.core.question_log import ASKED
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.middleware.chain import NO_HOOKS
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.streams.live_text import filter_partial
from holdfast.runtime.subagent import Subagent, agent_of, make_child_channel
from holdfast.runtime.tool_attempt import make_event_sink


class Parking(Struct, frozen=True):
    """Why a queue does not begin a turn again.

    Args:
        why: the reason, for whoever submitted the turn.
        deliveries: how often a worker has begun it.
    """

    why: str
    deliveries: int = 0


async def close_turn(run: ActiveTurn, effect: CloseTurn) -> TurnClosed:
    """Build the closing event. A turn whose last hooks failed gets the status `failed`."""
    _stream_closing_words(run)
    failure = run.hooks.failure
    if failure is not None and effect.error is None:
        run.error = failure
        info = failure.info.to_public()
        return TurnClosed(effect.key, run.plan.clock.now(), Status.FAILED, info)
    return TurnClosed(effect.key, run.plan.clock.now(), effect.status, effect.error)


def _stream_closing_words(run: ActiveTurn) -> None:
    """Stream the final text of a turn that a hook has stopped, which no model has streamed."""
    stop, publish = run.machine.stop_event, run.env.publish
    if stop is not None and stop.text and publish is not None:
        publish(TextDelta(stop.text))


async def finalize_turn(
    run: ActiveTurn,
    reason: Literal["cancelled", "deadline", "parked"],
    waited_for: str = "",
    *,
    by: str = "",
    parking: Parking | None = None,
) -> None:
    """Close the turn, unless it is to be left open.

    Args:
        run: the turn; its tools that have started are in doubt.
        reason: why the turn is stopped.
        waited_for: which server was silent.
        by: who gave up a turn that nobody drove; a stream knows who cancelled it.
        parking: why the turn is parked.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and failed calls used up the time of the turn.
    """
    recovery = run.recovery
    if reason == "cancelled" and run.shutdown is not None and run.shutdown.is_asked:
        return
    if recovery is not None:
        if reason == "cancelled" and recovery.recovery.is_stopping:
            return
        if reason != "parked":
            recovery.check_stop(run.machine, reason)
    if run.machine.allows_event(TurnInterrupted):
        await finalize_children(run)
        key, begun = interrupted_key(run.machine.turn), run.effects.started_keys()
        at = run.plan.clock.now()
        await run.log.commit(
            TurnInterrupted(
                key=key,
                at=at,
                reason=reason,
                started=begun,
                partial=filter_partial(run, run.partial_reply.reply),
                usage=run.sum_tool_usage(),
                cost=run.sum_open_costs(),
                waited_for=waited_for,
                by=by or (run.shutdown.cancelled_by if run.shutdown is not None else ""),
                why="" if parking is None else parking.why,
                deliveries=0 if parking is None else parking.deliveries,
            )
        )
    for effect in run.machine.pending_effects():
        if isinstance(effect, CloseTurn):
            await run.log.commit(await close_turn(run, effect), effect)


async def finalize_left_turn(run: ActiveTurn, by: str = "", parking: Parking | None = None) -> None:
    """Close a turn that was left open. Its tools that had begun are in doubt.

    Args:
        run: the turn.
        by: who gives it up.
        parking: why a queue gives it up.
    """
    machine = run.machine
    if machine.has_begun_tools:
        left = {effect.key for effect in machine.pending_effects()}
        run.effects.leave(left)
        copies = {one.key for one in machine.pending_effects() if isinstance(one, CopyResult)}
        for key in left - copies - machine.questions.unstarted_askers:
            run.effects.start(key)
    reason: Literal["cancelled", "parked"] = "cancelled" if parking is None else "parked"
    await finalize_turn(run, reason, by=by, parking=parking)


async def close_left_turn(run: ActiveTurn) -> None:
    """Close a turn that a crash left open, so that the next turn can begin.

    Raises:
        WaitingError: the turn waits for an answer.
    """
    log = run.machine.questions
    if log.is_waiting:
        keys = tuple(asked.key.removesuffix(ASKED) for asked in log.open_questions)
        raise WaitingError(run.run_id, keys)
    await finalize_left_turn(run)


async def finalize_children(run: ActiveTurn) -> None:
    """Close the open turns of subagents, because the turn ends without them."""
    run.log.raise_if_failed()  # if the end cannot be saved, leave the turn and its children open
    for effect in run.machine.pending_effects():
        # A subagent that is running closes its own turn when it is cancelled.
        if (
            isinstance(effect, RunTool)
            and run.effects[effect.key].is_left
            and run.context.child_journal is not None
        ):
            await _finalize_child(run, effect, run.context.child_journal)


async def _finalize_child(run: ActiveTurn, effect: RunTool, journal: Journal) -> None:
    agent = agent_of(run.plan.registry.get(effect.call.name))
    plan = agent.plan if agent is not None else _make_placeholder(run.plan)
    channel = make_child_channel(
        make_event_sink(run.env, run.hooks.facts.emit), effect.key, effect.call.name
    )
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
    """Build a plan for a subagent that is no longer registered."""
    return dataclasses.replace(plan, output=None, chain=NO_HOOKS, observers=())


def _meter_child(
    run: ActiveTurn, effect: RunTool, child: ActiveTurn, agent: Subagent[object] | None
) -> None:
    """Add the usage of a subagent to its caller, unless it has a budget of its own."""
    if agent is None or not agent.own_budget:
        notes = run.meter_call(effect.key)
        notes.take_over(child.run_id, child.machine.usage, child.machine.cost)
