"""The hooks before a turn, which accept, change or refuse the message of the user.

They are called before anything is saved. If one of them asks a question, the turn is opened with the
message as the hooks before it have changed it; then this hook is called again, and the others after
it, as an effect of the open turn. This module must never open a turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core.effects import AcceptTurn
from holdfast.core.errors import MiddlewareError, StoppedError
from holdfast.core.events import TurnAccepted, TurnStopped
from holdfast.core.messages import Message
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Deny, Patch, Stop
from holdfast.middleware.hook_calls import call_hook
from holdfast.middleware.hook_contexts import BeforeTurn
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.between_effects import make_stop_event
from holdfast.runtime.turn_state.turn_hooks import TurnHooks


class Acceptance(Struct):
    """How far the hooks before a turn have come.

    Args:
        context: the context of the next hook: the message as the hooks so far have changed it.
        hooks_called: the number of hooks that were called.
        is_saved: whether the turn is open, so that its message is saved already.
    """

    context: BeforeTurn
    hooks_called: int = 0
    is_saved: bool = False


def begin_acceptance(
    hooks: TurnHooks, key: str, message: Message, earlier: Sequence[Message]
) -> Acceptance:
    """Return the beginning of the hooks before a turn.

    Args:
        hooks: the hooks of the turn.
        key: the key under which they ask.
        message: the message of the user.
        earlier: the messages before it.
    """
    context = BeforeTurn(
        facts=hooks.facts,
        key=key,
        message=message,
        messages=earlier,
        instructions=hooks.instructions,
    )
    return Acceptance(context)


async def call_before_turn(hooks: TurnHooks, done: Acceptance) -> None:
    """Call the hooks that are left, until one of them ends the turn.

    Raises:
        StoppedError: a hook denied the message, forbids to save it, and it is not saved.
        MiddlewareError: a hook failed.
    """
    for hook in hooks.chain.before_turn[done.hooks_called :]:
        decision = await call_hook(hook, done.context)
        done.hooks_called += 1
        if decision is not None and not _apply_decision(hooks, done, hook, decision):
            return


def _apply_decision(hooks: TurnHooks, done: Acceptance, hook: Hook, decision: Decision) -> bool:
    """Carry out a decision; return whether the next hook is called."""
    if isinstance(decision, Deny):
        if not decision.save_message and not done.is_saved:
            raise StoppedError(decision.reason, reason="denied")
        hooks.refuse_message(hook, decision)
    elif isinstance(decision, Stop):
        hooks.ask_to_stop(hook, decision)
    elif isinstance(decision, Patch):
        done.context = _patch_turn(hook, done.context, decision)
        return True
    return False


def _patch_turn(hook: Hook, context: BeforeTurn, patch: Patch) -> BeforeTurn:
    said = context.message
    if patch.messages is not None:
        if len(patch.messages) != 1 or patch.messages[0].role != "user":
            problem = "returned Patch(messages=...) that is not one user message"
            raise MiddlewareError(hook.owner, hook.name, problem)
        said = patch.messages[0]
    if patch.settings is not None or patch.tools is not None:
        problem = "returned Patch with settings or tools; those belong to before_iteration"
        raise MiddlewareError(hook.owner, hook.name, problem)
    instructions = context.instructions if patch.instructions is None else patch.instructions
    return msgspec.structs.replace(context, message=said, instructions=instructions)


async def accept_turn(run: ActiveTurn, effect: AcceptTurn) -> TurnAccepted | TurnStopped:
    """Call the rest of the hooks before a turn that was opened for a question.

    A turn that they do not accept leaves its message out of the history, also when a hook fails.
    """
    hooks, transcript = run.hooks, run.machine.transcript
    message = transcript[-1]
    done = begin_acceptance(hooks, effect.key, message, tuple(transcript)[:-1])
    done.hooks_called, done.is_saved = effect.hooks_called, True
    try:
        await call_before_turn(hooks, done)
    except MiddlewareError as error:
        hooks.record_failure(error)
    if hooks.wants_to_end():
        end = make_stop_event(run)
        return end if end.error is None else msgspec.structs.replace(end, refused=True)
    accepted, written = done.context.message, done.context.instructions
    changed = written if written != hooks.instructions else None
    hooks.instructions = written
    return TurnAccepted(
        key=effect.key,
        at=run.plan.clock.now(),
        message=accepted if accepted != message else None,
        instructions=changed,
    )
