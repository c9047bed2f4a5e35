"""What stays in the history of a turn that ended without an answer, or whose request was refused.

What the user said and what tools returned stay, so that the next turn knows them. Results that a
provider's filter may have refused are withheld, or it would refuse each later request. This module
must never add a message that nobody wrote, and never remove a call or its result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Status, TurnStopped
from holdfast.core.messages import Message, Part, Reply, Text, ToolResult, assistant
from holdfast.core.transcript import Transcript
from holdfast.core.turn_failures import refuses_message

UNANSWERED = (Status.FAILED, Status.LIMIT, Status.CANCELLED)
"""How a turn ends that has no answer."""


WITHHELD_TEXT = (
    "The result is withheld: the provider's content filter refused a request with the new results."
)
"""What the model reads in place of a result."""
WITHHELD_FAILURE_TEXT = (
    "Error: the function failed. Its message is withheld: the provider's content filter refused a "
    "request with the new results."
)
WITHHELD_DOUBT_TEXT = (
    f"{WITHHELD_FAILURE_TEXT} Whether it took effect is unknown: check before calling it again."
)


class TurnHistory(Struct, eq=False):
    """The places of the last turn in the history: where it begins, and what of it needs an answer.

    `answered` is how many messages were in the last request that a model answered.
    """

    answered: int = 0
    _start: int = 0
    _unanswered: int = 0

    @property
    def needs_answer(self) -> bool:
        """Whether the history still has what the last turn had to answer."""
        return self._unanswered > 0

    @classmethod
    def after(cls, history: Sequence[Message]) -> TurnHistory:
        """Return the places in a history that was given or changed, and has no turn in it.

        What comes before its last reply is taken to have been in the request for that reply.
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
        """Add the message of a turn; without one, the turn answers what the last turn did not."""
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
        """Remove what must not be sent again.

        Args:
            history: the history.
            status: how the turn ended.
            partial: what was shown of a reply that broke off. It stays after an interruption,
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
    """Return the result of a call without what the tool returned; any other part as it is.

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
