"""The versions of a session's history, and the messages that stay of a turn without an answer.

Turns and changes of the history share one numbering. The messages that a change removes stay in the
versions, since a rewind may restore each of them.

Of a turn that ended without an answer, or whose request was refused, the words of the user and the
results of tools stay, so that the next turn knows them. Results that a provider's filter may have
refused are withheld, or it would refuse each later request. This module must never add a message that
nobody wrote, change one, or remove a call or its result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.errors import IllegalEventError
from holdfast.core.events import Event, HistoryCompacted, SessionRewound, Status, TurnStopped
from holdfast.core.messages import Message, Part, Reply, Text, ToolResult, assistant, user
from holdfast.core.transcript import Transcript
from holdfast.core.turn_failures import refuses_message

UNANSWERED = (Status.FAILED, Status.LIMIT, Status.CANCELLED)
"""How a turn ends that has no answer."""

WITHHELD_TEXT = (
    "The result is withheld: the provider's content filter refused a request with the new results."
)
"""The text for the model in place of a result."""

WITHHELD_FAILURE_TEXT = (
    "Error: the function failed. Its message is withheld: the provider's content filter refused a "
    "request with the new results."
)

WITHHELD_DOUBT_TEXT = (
    f"{WITHHELD_FAILURE_TEXT} Whether it took effect is unknown: check before calling it again."
)

ASK_SUMMARY = "Sum up what we have said so far."
"""The user message before a summary, since roles must alternate."""


class TurnHistory(Struct, eq=False):
    """The places of the last turn in the history: where it begins, and which part of it needs an answer.

    `answered` is how many messages were in the last request that a model answered.
    """

    answered: int = 0
    _start: int = 0
    _unanswered: int = 0

    @property
    def needs_answer(self) -> bool:
        """Whether the history still has the message that the last turn had to answer."""
        return self._unanswered > 0

    @classmethod
    def after(cls, history: Sequence[Message]) -> TurnHistory:
        """Return the places in a history that was given or changed, and has no turn in it.

        Everything before its last reply is taken to have been in the request for that reply.
        """
        replies = (at for at in range(len(history), 0, -1) if history[at - 1].role == "assistant")
        return cls(answered=next(replies, 1) - 1)

    def find_new_results(self, history: Sequence[Message]) -> tuple[ToolResult, ...]:
        """Return the results that no model has answered yet, and that are not withheld."""
        parts = (part for message in history[self.answered :] for part in message.parts)
        return tuple(
            part for part in parts if isinstance(part, ToolResult) and part != withhold(part)
        )

    def withhold_results(self, history: Transcript) -> None:
        """Replace the results that no model has answered yet."""
        messages = history[self.answered :]
        history.truncate(self.answered)
        for message in messages:
            history.append(Message(message.role, tuple(map(withhold, message.parts))))

    def open_turn(self, history: Transcript, message: Message | None) -> None:
        """Add the message of a turn; without one, the turn answers the message that the last turn did not."""
        if message is not None:
            self._start = len(history)
            history.append(message)
            self._unanswered = self._start + 1
        else:
            self._truncate(history, self._unanswered)
            # The message belongs to this turn now. Results of tools stay whatever happens.
            self._unanswered = len(history)
            self._start = self._unanswered - (history[-1].role == "user")

    def replace_message(self, history: Transcript, message: Message) -> None:
        """Replace the message of the turn, before anything answers it."""
        self._truncate(history, self._start)
        history.append(message)

    def add_results(self, history: Transcript, results: Message) -> None:
        """Add the results of tools, which need an answer now."""
        history.append(results)
        self._unanswered = len(history)

    def close_turn(
        self, history: Transcript, status: Status, partial: Reply | None, *, keep: bool
    ) -> None:
        """Remove the parts that must not be sent again.

        Args:
            history: the history.
            status: how the turn ended.
            partial: the shown part of a reply that broke off. It stays after an interruption,
                because the user has read it.
            keep: whether the message stays, since it was accepted or tools ran for it.
        """
        if not keep:
            self._truncate(history, self._start)
            self._unanswered = 0
        elif status in UNANSWERED:
            self._truncate(history, self._unanswered)
            shown = partial.text if partial is not None else ""
            if status is not Status.FAILED and shown.strip():
                history.append(assistant(shown))

    def _truncate(self, history: Transcript, length: int) -> None:
        history.truncate(length)
        self.answered = min(self.answered, length)


def withhold(part: Part) -> Part:
    """Return the result of a call without the value of the tool; any other part as it is.

    >>> from holdfast.core.messages import Media
    >>> result = ToolResult("1", "read_page", (Text("Forbidden."), Media("image/png", url="http://x/y")))
    >>> withhold(result).text == WITHHELD_TEXT
    True
    """
    if not isinstance(part, ToolResult):
        return part
    text = WITHHELD_FAILURE_TEXT if part.is_error else WITHHELD_TEXT
    content = (Text(WITHHELD_DOUBT_TEXT if part.in_doubt else text),)
    return msgspec.structs.replace(part, content=content)


def is_refused(stop: TurnStopped | None, error: ErrorInfo | None) -> bool:
    """Whether a turn ended because its message was refused, by a hook or by a provider."""
    if stop is not None and stop.refused:
        return True
    return error is not None and refuses_message(error)


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
