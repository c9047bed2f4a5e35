"""What there is of a typed answer while it is written, from the notices of a run; for previews only.

Nothing of it was checked, and all of it may be taken back: by an attempt that fails, or by the check
of the answer. This module must never be where an answer is read.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.deltas import TextDelta, ToolCallDelta
from holdfast.core.model_request import OutputSchema
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.core.partial_json import PartialJson
from holdfast.runtime.channel import Item

ENVELOPE: Final = "answer"


class Partials:
    """A fold over what a run shows.

    Args:
        output: what is wanted of the answer.
    """

    __slots__ = ("_calls", "_is_wrapped", "_json", "_names", "_opening_chars", "value")

    def __init__(self, output: OutputSchema) -> None:
        self._names = frozenset(tool.name for tool in output.tools)
        self._is_wrapped = output.envelope is not None
        self._opening_chars = "{[" if self._is_wrapped else "{"
        self.value: object = None
        """What there is now; None when there is nothing, or when what was shown is void."""
        self._start_over()

    def _start_over(self) -> bool:
        """Forget everything; returns whether somebody was shown something that is void now."""
        void, self.value = self.value is not None, None
        self._json = PartialJson(self._opening_chars)
        self._calls: set[int] = set()
        return void

    def feed(self, item: Item) -> bool:
        """Take the next item of a stream; returns whether `value` has changed."""
        kind = type(item)
        if kind is TextDelta:
            # Words before the call of a tool are no part of the answer.
            return not self._calls and self._feed_text(item.text)  # type: ignore[union-attr]
        if kind is ToolCallDelta:
            return self._feed_call(item)  # type: ignore[arg-type]
        if kind is AttemptAbandoned:
            return self._start_over()
        if kind is AttemptStarted and not item.continues:  # type: ignore[union-attr]
            return self._start_over()
        return False

    def _feed_call(self, delta: ToolCallDelta) -> bool:
        void = False
        if delta.name in self._names and not self._calls:
            void = self._start_over()
            self._calls.add(delta.index)
        if delta.index not in self._calls:
            return void
        return self._feed_text(delta.arguments) or void

    def _feed_text(self, text: str) -> bool:
        if not self._json.feed(text):
            return False
        value: object = self._json.value
        if self._is_wrapped and isinstance(value, dict):
            value = value.get(ENVELOPE)
        self.value = value
        return value is not None
