"""The versions of a session's history, so that a rewind can restore each of them.

Turns and changes of the history share one numbering. The messages that a change removes stay here,
since a later change may restore them. This module must never change a message. It reads only what
shows that a call and its result stay together.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.errors import IllegalEventError
from holdfast.core.events import Event, HistoryCompacted, SessionRewound
from holdfast.core.messages import Message, assistant, user
from holdfast.core.transcript import Transcript

ASK_SUMMARY = "Sum up what we have said so far."
"""The user message before a summary, since roles must alternate."""


class HistoryVersions:
    """The length of the history after each turn or change, and the histories that were replaced.

    Args:
        length: the length of the history before the first turn.

    >>> history = Transcript([user("a"), assistant("b"), user("c"), assistant("d")])
    >>> versions = HistoryVersions(0)
    >>> versions.add_version(2)
    >>> versions.add_version(4)
    >>> [message.text for message in versions.history_at(1, history)]
    ['a', 'b']
    """

    __slots__ = ("lengths", "replaced_histories")

    def __init__(self, length: int) -> None:
        self.lengths = [length]
        # Histories that a change replaced, each with the number of that change.
        self.replaced_histories: list[tuple[int, tuple[Message, ...]]] = []

    def add_version(self, length: int) -> None:
        """Record the length of the history after the next turn or change."""
        self.lengths.append(length)

    def history_at(self, number: int, history: Sequence[Message]) -> list[Message]:
        """Return the history as it was after `number`; 0 is before the first turn.

        Args:
            number: the number of an earlier turn or change.
            history: the history as it is now.
        """
        length = self.lengths[number]
        for changed, replaced in self.replaced_histories:
            if number < changed:
                return list(replaced[:length])
        return list(history[:length])

    def replace_history(self, history: Transcript, messages: Sequence[Message]) -> None:
        """Replace the messages of `history`, and record its old messages and the next version."""
        self.replaced_histories.append((len(self.lengths), tuple(history)))
        same = 0
        for before, after in zip(history, messages, strict=False):
            if before is not after:
                break
            same += 1
        history.truncate(same)
        for message in messages[same:]:
            history.append(message)
        self.add_version(len(history))


def compact_history(history: Sequence[Message], event: HistoryCompacted) -> list[Message]:
    """Return the history after a compaction: the summary, then the messages that stay.

    >>> history = [user("a"), assistant("b"), user("c"), assistant("d")]
    >>> event = HistoryCompacted("t3", 0.0, ((2, 4),), "a b")
    >>> [message.text for message in compact_history(history, event)]
    ['Sum up what we have said so far.', 'a b', 'c', 'd']
    """
    head = [user(ASK_SUMMARY), assistant(event.summary)] if event.summary else []
    return [
        *head,
        *(message for start, end in event.retained_ranges for message in history[start:end]),
    ]


def check_change(event: Event, turn: int, history: Sequence[Message]) -> None:
    """Raise IllegalEventError unless this change of the history can be made after turn `turn`."""
    if isinstance(event, SessionRewound) and event.to > turn:
        raise IllegalEventError(f"{event.key} goes back to {event.to}, which does not exist")
    problem = _find_split(history, event) if isinstance(event, HistoryCompacted) else ""
    if problem:
        raise IllegalEventError(f"{event.key} cannot compact the history: {problem}")


def _find_split(history: Sequence[Message], event: HistoryCompacted) -> str:
    """Return the problem of a compaction's ranges in words; "" when they are valid.

    A range begins with a user or system message and does not end just before the results of tools.
    So a call and its result are never separated.
    """
    last = 0
    for start, end in event.retained_ranges:
        if not last <= start < end <= len(history):
            return f"{start} to {end} is not a range of {len(history)} messages after {last}"
        last = end
        if history[start].role not in ("user", "system"):
            return f"message {start} is not a user or system message"
        if end < len(history) and history[end].role == "tool":
            return f"message {end} holds the results of calls before it"
    return ""
