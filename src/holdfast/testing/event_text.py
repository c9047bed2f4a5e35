"""Events in a few words, and what makes two of them the same.

It must never compare what differs from run to run: times, attempts, and the text of an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core import events as ev

_LONGEST = 120
IN_DOUBT = "in_doubt"


def describe_difference(then: ev.Event, now: ev.Event) -> str:
    """What is not the same, for people; "" when it is the same but for times and attempts."""
    if type(then) is type(now) and _select_comparable(then) == _select_comparable(now):
        return ""
    return f"then: {describe_event(then)}; now: {describe_event(now)}"


def describe_event(event: ev.Event) -> str:
    """One line about an event.

    >>> describe_event(ev.TurnClosed("t1.closed", 0.0, ev.Status.COMPLETED))
    'the turn ends as completed'
    """
    words = _WORDS.get(type(event))
    return words(event) if words is not None else f"{type(event).__name__} {event.key}"


def shorten_line(text: str, longest: int = _LONGEST) -> str:
    r"""The text on one line, cut.

    >>> shorten_line("a\nb" * 3, 5)
    'a ba…'
    """
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _select_comparable(event: ev.Event) -> object:
    """What must be the same when a run is played again."""
    pick = _ESSENCE.get(type(event))
    return pick(event) if pick is not None else event.key


def is_formatted(event: ev.ToolFinished) -> bool:
    """Whether the model read a text that was made of a failure, and not what the tool said."""
    if event.error is None:
        return False
    name, text = event.result.name, event.result.text
    made = (f"Error: Function '{name}' failed", f"Error invoking function '{name}'")
    return event.error.code == IN_DOUBT or text.startswith(made)


def _select_result(event: ev.ToolFinished) -> object:
    if is_formatted(event):
        # Of the exception that the text was made of, only the safe half is kept.
        return event.result.is_error, event.result.name
    return event.result, bool(event.attempts or event.error)


_ESSENCE: dict[type, Callable[[Any], object]] = {
    ev.TurnOpened: lambda event: event.message,
    ev.ModelReplied: lambda event: (event.reply, bool(event.attempts)),
    ev.ModelFailed: lambda event: (event.error.category, event.error.code),
    ev.ToolFinished: _select_result,
    ev.OutputChecked: lambda event: (event.parsed_by, event.problems),
    ev.QuestionAsked: lambda event: (event.kind, event.question),
    ev.QuestionAnswered: lambda event: event.answer,
    ev.TurnStopped: lambda event: (event.reason, event.text),
    ev.LimitExtended: lambda event: event.iterations,
    ev.TurnClosed: lambda event: event.status,
}


def _describe_reply(event: ev.ModelReplied) -> str:
    names = [f"{call.name}({shorten_line(call.arguments)})" for call in event.reply.calls]
    if names:
        return f"the model asks for {', '.join(names)}"
    return f"the model says {shorten_line(event.reply.text)!r}"


def _describe_end(event: ev.TurnClosed) -> str:
    why = f": {shorten_line(event.error.safe)}" if event.error is not None else ""
    return f"the turn ends as {event.status.value}{why}"


def _describe_check(event: ev.OutputChecked) -> str:
    wrong = "; ".join(shorten_line(str(problem)) for problem in event.problems[:3])
    return f"the answer does not fit: {wrong}" if wrong else "the answer fits"


def _describe_stop(event: ev.TurnStopped) -> str:
    return (
        f"{event.by or 'a middleware'} stops the turn: {shorten_line(event.text or event.reason)}"
    )


_WORDS: dict[type, Callable[[Any], str]] = {
    ev.TurnOpened: lambda event: f"the user says {shorten_line(event.message.text)!r}",
    ev.ModelReplied: _describe_reply,
    ev.ModelFailed: lambda event: f"the model call fails: {shorten_line(event.error.safe)}",
    ev.ToolsBegun: lambda _: "the tools begin",
    ev.ToolFinished: lambda event: f"{event.result.name} gives {shorten_line(event.result.text)!r}",
    ev.OutputChecked: _describe_check,
    ev.QuestionAsked: lambda event: f"{event.kind} {shorten_line(str(event.question))}",
    ev.QuestionAnswered: lambda event: f"the answer {shorten_line(str(event.answer))}",
    ev.QuestionUnanswered: lambda event: f"no answer ({event.why})",
    ev.TurnResumed: lambda _: "the turn goes on",
    ev.LimitExtended: lambda event: f"{event.iterations} iterations more",
    ev.TurnInterrupted: lambda event: f"the turn is interrupted ({event.reason})",
    ev.TurnStopped: _describe_stop,
    ev.TurnClosed: _describe_end,
    ev.SessionRewound: lambda event: f"back to where number {event.to} ended",
    ev.HistoryCompacted: lambda event: (
        f"a summary stands for the history: {shorten_line(event.summary)!r}"
    ),
}
