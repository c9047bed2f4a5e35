"""What stays in the history of a turn that ended without an answer.

What the user said and what tools returned stay, so that the next turn knows them. This module must
never add a message that nobody wrote.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.error_info import ErrorInfo
from holdfast.core.events import Status, TurnStopped
from holdfast.core.messages import Message, Reply, assistant
from holdfast.core.transcript import Transcript
from holdfast.core.turn_failures import refuses_message

UNANSWERED = (Status.FAILED, Status.LIMIT, Status.CANCELLED)
"""How a turn ends that has no answer."""


class TurnHistory(Struct, eq=False):
    """The places of the last turn in the history: where it begins, and what of it needs an answer."""

    _start: int = 0
    _unanswered: int = 0

    @property
    def needs_answer(self) -> bool:
        """Whether the history still has what the last turn had to answer."""
        return self._unanswered > 0

    def forget(self) -> None:
        """Forget the places, since the history was changed."""
        self._unanswered = 0

    def open_turn(self, history: Transcript, message: Message | None) -> None:
        """Add the message of a turn; without one, the turn answers what the last turn did not."""
        if message is not None:
            self._start = len(history)
            history.append(message)
            self._unanswered = self._start + 1
        else:
            history.truncate(self._unanswered)
            # The message belongs to this turn now. Results of tools stay whatever happens.
            self._unanswered = len(history)
            self._start = self._unanswered - (history[-1].role == "user")

    def replace_message(self, history: Transcript, message: Message) -> None:
        """Replace the message of the turn, before anything answers it."""
        history.truncate(self._start)
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
            history.truncate(self._start)
            self._unanswered = 0
        elif status in UNANSWERED:
            history.truncate(self._unanswered)
            shown = partial.text if partial is not None else ""
            if status is not Status.FAILED and shown.strip():
                history.append(assistant(shown))


def is_refused(stop: TurnStopped | None, error: ErrorInfo | None) -> bool:
    """Whether a turn ended because its message was refused, by a hook or by a provider."""
    if stop is not None and stop.refused:
        return True
    return error is not None and refuses_message(error)
