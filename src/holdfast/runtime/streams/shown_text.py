"""The text of a run as a reader sees it while it is written, and the error when that text is void.

This module reads the items of a stream. It must never change the run.
"""

from __future__ import annotations

from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError
from holdfast.core.events import ModelFailed, ModelReplied, OutputChecked
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, ReplyReplaced, RetryScheduled
from holdfast.runtime.turn_state.channel import Item


class TextWithdrawn(HoldfastError):
    """Text that `run.text(live=True)` yielded is void; `.text` is that text.

    The run goes on: discard the text and call `run.text(live=True)` again. It yields the text that
    comes instead. A run that fails raises its own error, and its text stays as it was.
    """

    default_category = ErrorCategory.TRANSIENT

    def __init__(self, text: str, *, info: ErrorInfo) -> None:
        super().__init__(f"The text that was shown is void: {info.safe}", info=info)
        self.text = text


class ShownText:
    """The text that a reader was shown of the reply in progress."""

    __slots__ = ("_abandoned", "_blocks", "_is_replaced", "_last_reply", "_next")

    def __init__(self) -> None:
        # By the index of the delta, because blocks may interleave.
        self._blocks: dict[int, str] = {}
        self._abandoned: ErrorInfo | None = None
        self._is_replaced = False
        self._last_reply = ""  # the shown text of the last reply, until its check as an output
        self._next = ""

    def take_next(self) -> str:
        """Return the text that takes the place of withdrawn text, once."""
        text, self._next = self._next, ""
        return text

    def feed(self, item: Item) -> str:
        """Process the next item of a stream; return the text to show.

        Raises:
            TextWithdrawn: text that was shown is void.
        """
        if isinstance(item, TextDelta):
            if self._is_replaced:
                return ""  # it is part of the reply that follows, which is compared with the shown text
            self._blocks[item.index] = self._blocks.get(item.index, "") + item.text
            return item.text
        if isinstance(item, AttemptAbandoned):
            self._abandoned = item.error  # the run may fail, and then its error is raised instead
        elif isinstance(item, RetryScheduled) or (
            isinstance(item, AttemptStarted) and not item.continues
        ):
            reason, self._abandoned = self._abandoned or _ASKED_AGAIN, None
            self._withdraw(self._take_shown(), reason)
        elif isinstance(item, ReplyReplaced):
            self._is_replaced = True
        elif isinstance(item, ModelReplied):
            return self._end_reply(item)
        elif isinstance(item, ModelFailed):
            self._is_replaced = False
            self._take_shown()
        elif isinstance(item, OutputChecked) and not item.parsed_by:
            self._withdraw(self._last_reply, _NOT_FITTING)
        return ""

    def _end_reply(self, replied: ModelReplied) -> str:
        """Return the text of a reply that was not streamed because a hook gave it."""
        shown, final = self._take_shown(), replied.reply.text
        was_replaced, self._is_replaced = self._is_replaced, False
        if was_replaced and shown and shown != final:
            self._next = self._last_reply = final
            self._withdraw(shown, _REPLACED)
        given = final if (was_replaced or not replied.attempts) and not shown else ""
        self._last_reply = shown or given
        return given

    def _take_shown(self) -> str:
        shown = "".join(text for _, text in sorted(self._blocks.items()))
        self._blocks.clear()
        return shown

    @staticmethod
    def _withdraw(text: str, info: ErrorInfo) -> None:
        if text:
            raise TextWithdrawn(text, info=info)


_NOT_FITTING = ErrorInfo(
    category=ErrorCategory.INVALID_RESPONSE, safe="The output does not fit its type."
)
_ASKED_AGAIN = ErrorInfo(
    category=ErrorCategory.TRANSIENT, safe="A hook asked the model again for this reply."
)
_REPLACED = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="A hook replaced the reply.")
