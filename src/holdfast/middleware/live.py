"""What a middleware may do with the text of a reply while it is written: look, change, hold back.

This is about what is shown live, and what is kept of a reply that broke off; a whole reply is
changed by `after_reply`. A filter must never show a piece that it has given out already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta

Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta
"""A piece of a reply, as it is shown live."""


class LiveFilter(Protocol):
    """One model call, seen piece by piece."""

    def feed(self, delta: Delta, /) -> Iterable[Delta]:
        """What is shown now, in place of `delta`; nothing holds it back."""
        ...

    def flush(self) -> Iterable[Delta]:
        """What was held back and is shown now: no more comes."""
        ...

    def reset(self) -> None:
        """The attempt failed, and another begins from the start."""
        ...
