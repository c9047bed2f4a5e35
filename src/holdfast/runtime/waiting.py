"""Effects that were left to wait for an answer: which, for what, and when they are run again.

Nothing here may ask, and nothing may end an effect: one that waits stays pending.
"""

from __future__ import annotations

from holdfast.core.effects import Effect, begun_key, resumed_key
from holdfast.core.events import TurnResumed
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import ASKED, scope_of
from holdfast.runtime.leaving_open import TurnLeftOpen
from holdfast.runtime.open_question import Suspended
from holdfast.runtime.run import Run


def left_to_wait(run: Run, effects: tuple[Effect, ...], error: BaseException) -> bool:
    """Whether this error says that the effects wait for an answer, or for another recovery.

    Then that is noted.

    Args:
        run: whose effects they are.
        effects: what waits then.
        error: what came of performing them.
    """
    if run.recovery is not None and isinstance(error, TurnLeftOpen):
        run.recovery.left_open = error
        run.left.update(effect.key for effect in effects)
        return True
    keys = questions_of(error)
    if keys is None:
        return False
    for effect in effects:
        _leave(run, effect.key, keys)
    return True


def _leave(run: Run, effect: str, keys: frozenset[str]) -> None:
    still = {asked.key.removesuffix(ASKED) for asked in run.machine.questions.open}
    run.waiting[effect] = keys.union(key for key in still if scope_of(key) == effect)
    for scope in {effect, *map(scope_of, keys)}:
        run.questions.forget(scope)
    if effect not in run.acted:
        run.started.discard(effect)
    run.acted.discard(effect)
    run.left.add(effect)


def questions_of(error: BaseException | None) -> frozenset[str] | None:
    """What was asked by those who left with this error; None when that is not what it says.

    Args:
        error: may be a group, when tasks that a tool started have asked.
    """
    if isinstance(error, Suspended):
        return error.keys
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [questions_of(one) for one in error.exceptions]
    fatal = any(
        keys is None and not isinstance(one, Exception)
        for keys, one in zip(found, error.exceptions, strict=True)
    )
    keys = [one for one in found if one is not None]
    return frozenset().union(*keys) if keys and not fatal else None


def somebody_waits(run: Run) -> bool:
    """Whether an effect was left to wait or left open, or an answer was not taken up yet."""
    if run.recovery is not None and run.recovery.left_open is not None:
        return True
    return bool(run.waiting or run.machine.questions.due)


async def awake(run: Run, pending: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """What can be performed now; nothing when all the rest of the turn waits.

    Args:
        run: in which somebody waits.
        pending: its effects without an outcome.

    Raises:
        TurnLeftOpen: one of them was left open, and those beside it have ended.
    """
    if run.recovery is not None and run.recovery.left_open is not None:
        raise run.recovery.left_open
    machine = run.machine
    found = _free(run, pending)
    if not found:
        if run.hooks is not None and run.hooks.wants_to_end():
            return pending  # a hook ends the turn, whatever waits
        await run.questions.rest()
        found = _free(run, pending)
    if found and machine.questions.due:
        key = resumed_key(machine.turn, machine.questions.resumed)
        await run.commit(TurnResumed(key, run.plan.clock.now()))
    return found


def all_waits(machine: RunMachine) -> bool:
    """Whether all that is pending was left to wait for an answer, as the journal tells it."""
    log, rested = machine.questions, machine.questions.rested
    if not log.waits or begun_key(machine.turn, machine.iteration) in rested:
        return log.waits
    return all(effect.key in rested for effect in machine.pending())


def _free(run: Run, pending: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Those that do not wait, or of whose questions one has ended."""
    ended = run.machine.questions.ended
    for effect, keys in list(run.waiting.items()):
        if any(key in ended for key in keys):
            del run.waiting[effect]
    return tuple(effect for effect in pending if effect.key not in run.waiting)
