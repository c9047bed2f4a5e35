"""Suspended effects: which effects wait for an answer, and when they can run again.

This module must never ask a question or end an effect. A suspended effect stays pending.
"""

from __future__ import annotations

from holdfast.core.effects import Effect, asking_scopes, resumed_key
from holdfast.core.events import TurnResumed
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import ASKED, asker_key
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.questions.open_question import Suspended
from holdfast.runtime.turn_state.leaving_open import TurnLeftOpen


def mark_suspended(run: ActiveTurn, effects: tuple[Effect, ...], error: BaseException) -> bool:
    """Mark the effects as suspended if the error means that they wait; return whether it does.

    They can wait for an answer or for another recovery.

    Args:
        run: the turn of the effects.
        effects: the effects that raised the error.
        error: the error that was raised.
    """
    if run.recovery is not None and isinstance(error, TurnLeftOpen):
        run.recovery.left_open = error
        run.effects.leave(effect.key for effect in effects)
        return True
    keys = find_suspended_keys(error)
    if keys is None:
        return False
    for effect in effects:
        _suspend_effect(run, effect.key, keys)
    return True


def _suspend_effect(run: ActiveTurn, effect: str, keys: frozenset[str]) -> None:
    still = {asked.key.removesuffix(ASKED) for asked in run.machine.questions.open_questions}
    asked = keys.union(key for key in still if asker_key(key) == effect)
    for scope in {effect, *map(asker_key, keys)}:
        run.questions.forget_scope(scope)
    run.effects.suspend(effect, asked)


def find_suspended_keys(error: BaseException | None) -> frozenset[str] | None:
    """Return the keys of the questions that the error waits for; None for any other error.

    Args:
        error: the error; a group when several tasks of a tool have asked.
    """
    if isinstance(error, Suspended):
        return error.keys
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [find_suspended_keys(one) for one in error.exceptions]
    fatal = any(
        keys is None and not isinstance(one, Exception)
        for keys, one in zip(found, error.exceptions, strict=True)
    )
    keys = [one for one in found if one is not None]
    return frozenset().union(*keys) if keys and not fatal else None


def has_suspended(run: ActiveTurn) -> bool:
    """Whether an effect is suspended or left open, or an answer was not used yet."""
    if run.recovery is not None and run.recovery.left_open is not None:
        return True
    return run.effects.suspended_count > 0 or bool(run.machine.questions.due_askers)


async def find_runnable(run: ActiveTurn, pending: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Return the effects that can be performed now; none when all of them wait.

    Args:
        run: a turn with suspended effects.
        pending: its effects without an outcome.

    Raises:
        TurnLeftOpen: an effect was left open, and the effects that ran beside it have ended.
    """
    if run.recovery is not None and run.recovery.left_open is not None:
        raise run.recovery.left_open
    machine = run.machine
    found = _select_runnable(run, pending)
    if not found:
        if run.hooks.wants_to_end():
            return pending  # a hook ends the turn, even if effects wait
        await run.questions.collect_late_answers()
        found = _select_runnable(run, pending)
    if found and machine.questions.due_askers:
        key = resumed_key(machine.turn, machine.questions.resume_count)
        await run.log.commit(TurnResumed(key, run.plan.clock.now()))
    return found


def all_suspended(machine: SessionMachine) -> bool:
    """Whether all pending effects wait for an answer, according to the journal."""
    log, rested = machine.questions, machine.questions.rerunnable_askers
    if not log.is_waiting or not rested.isdisjoint(asking_scopes(machine.turn, machine.iteration)):
        return log.is_waiting
    return all(effect.key in rested for effect in machine.pending_effects())


def _select_runnable(run: ActiveTurn, pending: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Select the effects that do not wait, or for which a question has ended."""
    run.effects.wake(run.machine.questions.outcomes)
    return tuple(effect for effect in pending if run.effects[effect.key].waits_for is None)
