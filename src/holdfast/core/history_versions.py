"""Where the history of a session stood after each of its numbers, so that it can go back there.

Turns and changes of the history share one numbering. What a change takes away is kept here, since
a later change may bring it back. This module must never change a message, and must never look into
one further than to see that a call and its result stay together.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.events import HistoryCompacted
from holdfast.core.messages import Message, assistant, user
from holdfast.core.transcript import Transcript

ASK_SUMMARY = "Sum up what we have said so far."
"""What the user seems to have said before a summary, since roles take turns."""


class HistoryVersions:
    """The length of the history after each number, and the histories that were left.

    Args:
        length: of the history before the first turn.

    >>> history = Transcript([user("a"), assistant("b"), user("c"), assistant("d")])
    >>> points = HistoryVersions(0)
    >>> points.add_version(2)
    >>> points.add_version(4)
    >>> [message.text for message in points.history_at(1, history)]
    ['a', 'b']
    """

    __slots__ = ("lengths", "replaced_histories")

    def __init__(self, length: int) -> None:
        self.lengths = [length]
        # Histories that a change replaced, each with the number of that change.
        self.replaced_histories: list[tuple[int, tuple[Message, ...]]] = []

    def add_version(self, length: int) -> None:
        """The next number is over, and this is how long the history is."""
        self.lengths.append(length)

    def history_at(self, number: int, history: Sequence[Message]) -> list[Message]:
        """The history as it was when `number` was over; 0 is before the first turn.

        Args:
            number: one that was marked.
            history: as it is now.
        """
        length = self.lengths[number]
        for changed, left in self.replaced_histories:
            if number < changed:
                return list(left[:length])
        return list(history[:length])

    def replace_history(self, history: Transcript, messages: Sequence[Message]) -> None:
        """Make `history` hold these messages, keep what it held, and mark the next number."""
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
    """The history after a compaction: the summary, and then what stays.

    >>> said = [user("a"), assistant("b"), user("c"), assistant("d")]
    >>> [message.text for message in compact_history(said, HistoryCompacted("t3", 0.0, ((2, 4),), "a b"))]
    ['Sum up what we have said so far.', 'a b', 'c', 'd']
    """
    head = [user(ASK_SUMMARY), assistant(event.summary)] if event.summary else []
    return [
        *head,
        *(message for start, end in event.retained_ranges for message in history[start:end]),
    ]


def find_split(history: Sequence[Message], event: HistoryCompacted) -> str:
    """What is wrong with the ranges of a compaction, in words; "" when nothing is.

    A range begins with what a user said, and does not end just before the results of tools: no call
    and no result is ever left alone.
    """
    last = 0
    for start, end in event.retained_ranges:
        if not last <= start < end <= len(history):
            return f"{start} to {end} is no range of {len(history)} messages after {last}"
        last = end
        if history[start].role not in ("user", "system"):
            return f"message {start} is not the first of what somebody said"
        if end < len(history) and history[end].role == "tool":
            return f"message {end} holds results, and the calls before it would be alone"
    return ""
