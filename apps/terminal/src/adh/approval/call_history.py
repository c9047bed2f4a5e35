"""Folds the events of a session into facts about its calls: who answered for them, and when earlier ones ran.

It is a fold, so it is the same after a restart. It must never count a call twice, and must never be undone by
a rewind of the session: a call that ran has run.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.events import (
    Event,
    ModelReplied,
    QuestionAnswered,
    QuestionUnanswered,
    ToolFinished,
    TurnInterrupted,
)

MOST_CALLS = 1_000
"""How many finished calls are remembered."""
_ASK = ".ask."
_LONGEST_ARGUMENTS = 4_000
"""Longer arguments are remembered with their texts cut, in characters."""
_LONGEST_TEXT = 1_000
_NOT_RUN = frozenset({"denied", "stopped"})


class GivenAnswer(Struct, frozen=True):
    """The last answer to a question about a call.

    Args:
        by: who gave it: a person's name, "--yes", or why there was none, such as "timeout".
        typed: the name that the person typed.
        allows: whether it was a yes.
    """

    by: str
    typed: str = ""
    allows: bool = False


class PastCall(Struct, frozen=True):
    """A call of the model.

    Args:
        tool: the name of the tool.
        arguments: its arguments as JSON text, as the model wrote them or as a person edited them.
        at: when it ended, in seconds since the epoch; 0 while it has not.
    """

    tool: str
    arguments: str
    at: float = 0.0


class CallHistory(Struct, frozen=True):
    """The calls of a session.

    Args:
        answers: the last answer about each call that has no result yet, by the key of the call.
        open_calls: the calls without a result, by their keys, in the order of the reply.
        past_calls: the newest calls that ran, oldest first.
    """

    answers: Mapping[str, GivenAnswer] = {}
    open_calls: Mapping[str, PastCall] = {}
    past_calls: tuple[PastCall, ...] = ()

    def calls_before(self, key: str) -> tuple[PastCall, ...]:
        """Return the calls that ran, and those of the same reply that stand before this one."""
        before = []
        for other, call in self.open_calls.items():
            if other == key:
                break
            before.append(call)
        return (*self.past_calls, *before)


def fold_calls(history: CallHistory, event: Event) -> CallHistory:
    """Return the history after an event."""
    if isinstance(event, ModelReplied):
        return _add_calls(history, event)
    if isinstance(event, QuestionAnswered | QuestionUnanswered):
        return _add_answer(history, event)
    if isinstance(event, ToolFinished) and event.key in history.open_calls:
        return _end_call(history, event)
    if isinstance(event, TurnInterrupted):
        return _end_turn(history, event)
    return history


def _add_calls(history: CallHistory, event: ModelReplied) -> CallHistory:
    prefix = event.key.removesuffix("model")
    calls = {
        f"{prefix}tool.{index}": PastCall(call.name, _shorten(call.arguments))
        for index, call in enumerate(event.reply.calls)
    }
    # A reply begins when all calls before it have ended, or when their turn was given up.
    return CallHistory({}, calls, history.past_calls)


def _shorten(arguments: str) -> str:
    """Return arguments without the rest of long texts, such as the content of a file."""
    if len(arguments) <= _LONGEST_ARGUMENTS:
        return arguments
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "{}"
    if not isinstance(decoded, dict):
        return "{}"
    cut = {
        name: value[:_LONGEST_TEXT] if isinstance(value, str) else value
        for name, value in decoded.items()
    }
    return msgspec.json.encode(cut).decode()


def _add_answer(history: CallHistory, event: QuestionAnswered | QuestionUnanswered) -> CallHistory:
    key, asked, _ = event.key.partition(_ASK)
    if not asked or key not in history.open_calls:
        return history
    if isinstance(event, QuestionUnanswered):
        return _with_answer(history, key, GivenAnswer(event.why))
    saved: Mapping[str, object] = event.answer if isinstance(event.answer, dict) else {}
    allows = saved.get("type") == "approved"
    because = saved.get("because", "person")
    typed = saved.get("typed", "")
    given = GivenAnswer(
        event.by or str(because), typed if isinstance(typed, str) else "", allows=allows
    )
    edited = saved.get("arguments")
    if allows and isinstance(edited, dict):
        text = _shorten(msgspec.json.encode(edited).decode())
        call = msgspec.structs.replace(history.open_calls[key], arguments=text)
        history = msgspec.structs.replace(history, open_calls={**history.open_calls, key: call})
    return _with_answer(history, key, given)


def _with_answer(history: CallHistory, key: str, given: GivenAnswer) -> CallHistory:
    return msgspec.structs.replace(history, answers={**history.answers, key: given})


def _end_call(history: CallHistory, event: ToolFinished) -> CallHistory:
    call = history.open_calls[event.key]
    ran = not event.same_as and (event.error is None or event.error.code not in _NOT_RUN)
    past = history.past_calls
    if ran:
        past = (*past, msgspec.structs.replace(call, at=event.at))[-MOST_CALLS:]
    open_calls = {key: one for key, one in history.open_calls.items() if key != event.key}
    answers = {key: one for key, one in history.answers.items() if key != event.key}
    return CallHistory(answers, open_calls, past)


def _end_turn(history: CallHistory, event: TurnInterrupted) -> CallHistory:
    """Count the calls that had begun when the turn was stopped: they may have taken effect."""
    begun = [
        msgspec.structs.replace(call, at=event.at)
        for key, call in history.open_calls.items()
        if key in event.started
    ]
    return CallHistory(past_calls=(*history.past_calls, *begun)[-MOST_CALLS:])
