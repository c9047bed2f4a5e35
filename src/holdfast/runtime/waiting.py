"""Effects that were left to wait for an answer: which, for what, and when they are run again.

Nothing here may ask, and nothing may end an effect: one that waits stays pending.
"""

from __future__ import annotations

from types import TracebackType

from holdfast.core.effects import Effect, begun_key, resumed_key
from holdfast.core.events import TurnResumed
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import ASKED, scope_of
from holdfast.runtime.hooked_between import end_of
from holdfast.runtime.open_question import Suspended
from holdfast.runtime.run import Run


class suspending:  # noqa: N801 - used as a function
    """What is performed in this block may leave to wait for an answer.

    Args:
        run: whose effects they are.
        effects: what waits then.
    """

    __slots__ = ("_effects", "_run")

    def __init__(self, run: Run, effects: tuple[Effect, ...]) -> None:
        self._run = run
        self._effects = effects

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        keys = questions_of(error) if error is not None else None
        if keys is None:
            return False
        for effect in self._effects:
            _leave(self._run, effect.key, keys)
        return True


def _leave(run: Run, effect: str, keys: frozenset[str]) -> None:
    still = {asked.key.removesuffix(ASKED) for asked in run.machine.questions.open}
    run.waiting[effect] = keys.union(key for key in still if scope_of(key) == effect)
    for scope in {effect, *map(scope_of, keys)}:
        run.questions.forget(scope)
    if effect not in run.acted:
        run.started.discard(effect)
    run.acted.discard(effect)


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


async def ready(run: Run) -> tuple[Effect, ...]:
    """What can be performed now; nothing when the turn is over, or all the rest of it waits."""
    machine = run.machine
    pending = machine.pending()
    if not pending or not (run.waiting or machine.questions.due):
        return pending
    found = _awake(run, pending)
    if not found:
        if run.hooks is not None and end_of(run, run.hooks) is not None:
            return pending  # a hook ends the turn, whatever waits
        await run.questions.rest()
        found = _awake(run, pending)
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


def _awake(run: Run, pending: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Those that do not wait, or of whose questions one has ended."""
    ended = run.machine.questions.ended
    for effect, keys in list(run.waiting.items()):
        if any(key in ended for key in keys):
            del run.waiting[effect]
    return tuple(effect for effect in pending if effect.key not in run.waiting)
