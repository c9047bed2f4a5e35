"""The next action of a turn, decided from the saved conversation: call a tool, let the model read, or let it word.

The decision is pure and rests on the saved conversation and the message alone, so a turn that was
interrupted at any instant goes on with the rest. This module must never call anything, and the notes that the hooks
of a turn share must never hold anything that a crash may not lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from registration.club.corrections import find_chosen_field, wants_to_keep
from registration.club.progress import Progress
from registration.flow.conversations import Conversation
from registration.flow.model_calls import SUBMIT


class CallTool(Struct, frozen=True):
    """Let the server's code call this tool."""

    name: str
    arguments: Mapping[str, object] = {}


class LetRead(Struct, frozen=True):
    """Let the model read the parent's message."""


class LetWord(Struct, frozen=True):
    """Let the model word the decision."""


class EndTurn(Struct, frozen=True):
    """End the turn: something that it needs fails each time."""


class AskAgain(Struct, frozen=True):
    """Ask the open question again: the message was written for another one."""


Next: TypeAlias = CallTool | LetRead | LetWord | AskAgain | EndTurn

BEGIN = "begin_registration"
GIVE_UP = "leave_for_later"

ASKED_BY: Mapping[str, str] = {
    "request_payment": "find_payment",
    "send_payment_link": "find_payment_link",
}
"""An effect whose outcome may be unknown -> the tool that asks for its outcome."""

_MOST_TRIES = 2
_MOST_CALLS = 3
"""Calls of one tool in a turn; in a turn that succeeds, none is called more often."""


def choose_next(
    conversation: Conversation,
    turn: int,
    message: str,
    called: Sequence[str],
    *,
    is_code: bool,
    is_stale: bool = False,
) -> Next:
    """Return the next action of a turn.

    Args:
        conversation: the saved state.
        turn: the number of the turn.
        message: the message of the parent.
        called: the names of the tools that were called in this turn, in order.
        is_code: whether the message has the form of a code; such a message answers no question.
        is_stale: whether the message was written for a question that was answered since.
    """
    progress = conversation.progress
    pending = None if progress is None else progress.pending
    if pending is None and conversation.turn >= turn:
        return LetWord()
    if any(called.count(name) >= _MOST_CALLS for name in called):
        return EndTurn()
    if pending is not None:
        return _perform(pending, called)
    if progress is None or is_code:
        return CallTool(BEGIN, {"message": message})
    if is_stale:
        return AskAgain()
    pressed = None if SUBMIT in called else _read_button(progress, message)
    return LetRead() if pressed is None else CallTool(SUBMIT, pressed)


def _read_button(progress: Progress, message: str) -> Mapping[str, object] | None:
    """Return the reading of a message that a button of the page has sent; no model needs to read it."""
    field = find_chosen_field(message, progress)
    if field is not None:
        return {"understood": True, "wants_to_change": field}
    if progress.back_to is not None and wants_to_keep(message):
        return {"understood": True, "value": message}
    return None


def _perform(effect: str, called: Sequence[str]) -> CallTool:
    """Perform an effect that is pending; ask for its outcome if it was tried and is still pending."""
    tries = called.count(effect)
    asks = ASKED_BY.get(effect)
    if asks is None or not tries or (called[-1] == asks and tries < _MOST_TRIES):
        return CallTool(effect)
    if called.count(asks) < tries:
        return CallTool(asks)
    return CallTool(GIVE_UP, {"effect": effect})


class TurnNotes:
    """The facts about a turn while this process drives it; nothing rests on them after a crash."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self.next: Next = LetRead()
        self.began: float | None = None
        self.degraded = False
