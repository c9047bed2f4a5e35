"""What there is of a typed answer while it is written, from the notices of a run; for previews only.

Nothing of it was checked, and all of it may be taken back: by an attempt that fails, or by the check
of the answer. This module must never be where an answer is read.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.deltas import TextDelta, ToolCallDelta
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.core.partial_json import PartialJson
from holdfast.core.request import OutputSchema
from holdfast.runtime.notices import Item

ENVELOPE: Final = "answer"


class Partials:
    """A fold over what a run shows.

    Args:
        output: what is wanted of the answer.
    """

    __slots__ = ("_begins", "_calls", "_json", "_names", "_wrapped", "value")

    def __init__(self, output: OutputSchema) -> None:
        self._names = frozenset(tool.name for tool in output.tools)
        self._wrapped = output.envelope is not None
        self._begins = "{[" if self._wrapped else "{"
        self.value: object = None
        """What there is now; None when there is nothing, or when what was shown is void."""
        self._begin_again()

    def _begin_again(self) -> bool:
        """Forget everything; returns whether somebody was shown something that is void now."""
        void, self.value = self.value is not None, None
        self._json = PartialJson(self._begins)
        self._calls: set[int] = set()
        return void

    def take(self, item: Item) -> bool:
        """Take the next item of a stream; returns whether `value` has changed."""
        kind = type(item)
        if kind is TextDelta:
            # Words before the call of a tool are no part of the answer.
            return not self._calls and self._feed(item.text)  # type: ignore[union-attr]
        if kind is ToolCallDelta:
            return self._take_call(item)  # type: ignore[arg-type]
        if kind is AttemptAbandoned:
            return self._begin_again()
        if kind is AttemptStarted and not item.continues:  # type: ignore[union-attr]
            return self._begin_again()
        return False

    def _take_call(self, delta: ToolCallDelta) -> bool:
        void = False
        if delta.name in self._names and not self._calls:
            void = self._begin_again()
            self._calls.add(delta.index)
        if delta.index not in self._calls:
            return void
        return self._feed(delta.arguments) or void

    def _feed(self, text: str) -> bool:
        if not self._json.feed(text):
            return False
        value: object = self._json.value
        if self._wrapped and isinstance(value, dict):
            value = value.get(ENVELOPE)
        self.value = value
        return value is not None
