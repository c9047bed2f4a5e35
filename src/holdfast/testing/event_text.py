"""Describes events in a few words, and compares two events.

The comparison ignores what differs from run to run: times, attempts and the texts of exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core import events as ev

_LONGEST = 120
IN_DOUBT = "in_doubt"


def describe_difference(then: ev.Event, now: ev.Event) -> str:
    """Describe how two events differ; "" if they differ at most in times and attempts."""
    if type(then) is type(now) and _select_comparable(then) == _select_comparable(now):
        return ""
    return f"then: {describe_event(then)}; now: {describe_event(now)}"


def describe_event(event: ev.Event) -> str:
    """Describe an event in one line.

    >>> describe_event(ev.TurnClosed("t1.closed", 0.0, ev.Status.COMPLETED))
    'the turn ends as completed'
    """
    words = _WORDS.get(type(event))
    return words(event) if words is not None else f"{type(event).__name__} {event.key}"


def shorten_line(text: str, longest: int = _LONGEST) -> str:
    r"""Shorten a text to one line.

    >>> shorten_line("a\nb" * 3, 5)
    'a ba…'
    """
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _select_comparable(event: ev.Event) -> object:
    """Select the content of an event that a replay compares."""
    select = _ESSENCE.get(type(event))
    return select(event) if select is not None else event.key


def is_formatted(event: ev.ToolFinished) -> bool:
    """Whether the result's text describes a failure instead of being the tool's own text."""
    if event.error is None:
        return False
    name, text = event.result.name, event.result.text
    prefixes = (f"Error: Function '{name}' failed", f"Error invoking function '{name}'")
    return event.error.code == IN_DOUBT or text.startswith(prefixes)


def _select_result(event: ev.ToolFinished) -> object:
    if is_formatted(event):
        # The text contains the message of an exception, of which only the safe half is saved.
        return event.result.is_error, event.result.name
    return event.result, bool(event.attempts or event.error)


_ESSENCE: dict[type, Callable[[Any], object]] = {
    ev.TurnOpened: lambda event: event.message,
    ev.TurnAccepted: lambda event: event.message,
    ev.ModelReplied: lambda event: (event.reply, bool(event.attempts)),
    ev.ModelFailed: lambda event: (event.error.category, event.error.code),
    ev.ResultsWithheld: lambda event: (event.tools, event.error.category, event.error.code),
    ev.ToolFinished: _select_result,
    ev.DoubtChecked: lambda event: (event.verdict, event.result, event.settled),
    ev.OutputChecked: lambda event: (event.parsed_by, event.problems, event.call),
    ev.QuestionAsked: lambda event: (event.kind, event.question),
    ev.QuestionAnswered: lambda event: event.answer,
    ev.TurnStopped: lambda event: (event.reason, event.text),
    ev.LimitExtended: lambda event: event.iterations,
    ev.TurnClosed: lambda event: event.status,
}


def _describe_opening(event: ev.TurnOpened) -> str:
    if event.message is None:
        return "the last message is tried again"
    return f"the user says {shorten_line(event.message.text)!r}"


def _describe_reply(event: ev.ModelReplied) -> str:
    names = [f"{call.name}({shorten_line(call.arguments)})" for call in event.reply.calls]
    if names:
        asker = f"{event.by} calls" if event.by else "the model asks for"
        return f"{asker} {', '.join(names)}"
    return f"the model says {shorten_line(event.reply.text)!r}"


def _describe_end(event: ev.TurnClosed) -> str:
    why = f": {shorten_line(event.error.safe)}" if event.error is not None else ""
    return f"the turn ends as {event.status.value}{why}"


def _describe_check(event: ev.OutputChecked) -> str:
    if event.call is not None:
        return f"the output calls {event.call.name}({shorten_line(event.call.arguments)})"
    wrong = "; ".join(shorten_line(str(problem)) for problem in event.problems[:3])
    return f"the output is invalid: {wrong}" if wrong else "the output is valid"


def _describe_stop(event: ev.TurnStopped) -> str:
    return (
        f"{event.by or 'a middleware'} stops the turn: {shorten_line(event.text or event.reason)}"
    )


_WORDS: dict[type, Callable[[Any], str]] = {
    ev.TurnOpened: _describe_opening,
    ev.TurnAccepted: lambda _: "the hooks before the turn accept the message",
    ev.ModelReplied: _describe_reply,
    ev.ModelFailed: lambda event: f"the model call fails: {shorten_line(event.error.safe)}",
    ev.ResultsWithheld: lambda event: (
        f"the results of {', '.join(event.tools)} are withheld, since the provider refused a request: "
        f"{shorten_line(event.error.safe)}"
    ),
    ev.ToolsBegun: lambda _: "the tools begin",
    ev.ToolFinished: lambda event: (
        f"{event.result.name} returns {shorten_line(event.result.text)!r}"
    ),
    ev.DoubtChecked: lambda event: f"the check says {event.verdict.replace('_', ' ')}",
    ev.OutputChecked: _describe_check,
    ev.QuestionAsked: lambda event: f"{event.kind} {shorten_line(str(event.question))}",
    ev.QuestionAnswered: lambda event: f"the answer {shorten_line(str(event.answer))}",
    ev.QuestionUnanswered: lambda event: f"no answer ({event.why})",
    ev.TurnResumed: lambda _: "the turn is resumed",
    ev.LimitExtended: lambda event: f"{event.iterations} more iterations",
    ev.TurnInterrupted: lambda event: (
        f"the turn is interrupted ({event.reason}{f': {event.why}' if event.why else ''})"
    ),
    ev.TurnStopped: _describe_stop,
    ev.TurnClosed: _describe_end,
    ev.SessionRewound: lambda event: f"rewound to number {event.to}",
    ev.HistoryCompacted: lambda event: (
        f"a summary replaces the history: {shorten_line(event.summary)!r}"
    ),
}
