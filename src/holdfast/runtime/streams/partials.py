"""Previews of structured output while it is streamed, from the notices of a run.

A preview is not validated, and it becomes invalid when the attempt fails or the output does not fit
its type. This module must never produce the final output.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.deltas import TextDelta, ToolCallDelta
from holdfast.core.model_request import OutputSchema
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, ReplyReplaced
from holdfast.core.partial_json import PartialJson
from holdfast.runtime.turn_state.channel import Item

ENVELOPE: Final = "answer"


class Partials:
    """Computes the preview from the items of a run stream.

    Args:
        output: the schema of the output.
    """

    __slots__ = ("_calls", "_is_wrapped", "_json", "_names", "_opening_chars", "value")

    def __init__(self, output: OutputSchema) -> None:
        self._names = frozenset(tool.name for tool in output.tools)
        self._is_wrapped = output.envelope is not None
        self._opening_chars = "{[" if self._is_wrapped else "{"
        self.value: object = None
        """The preview so far; None when there is none, or when the last one became invalid."""
        self._start_over()

    def _start_over(self) -> bool:
        """Start over; returns whether there was a preview, which is now invalid."""
        void, self.value = self.value is not None, None
        self._json = PartialJson(self._opening_chars)
        self._calls: set[int] = set()
        return void

    def feed(self, item: Item) -> bool:
        """Process the next item of a stream; returns whether `value` has changed."""
        kind = type(item)
        if kind is TextDelta:
            # Once a tool is called, only its arguments are the output.
            return not self._calls and self._feed_text(item.text)  # type: ignore[union-attr]
        if kind is ToolCallDelta:
            return self._feed_call(item)  # type: ignore[arg-type]
        if kind is AttemptAbandoned or kind is ReplyReplaced:
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
