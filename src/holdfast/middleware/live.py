"""Live filters: how a middleware inspects, changes or delays the text of a reply while it streams.

A filter applies to the streamed deltas, and to the text of a reply that broke off. A complete reply is
changed by `after_reply`. A filter must never return a piece of text twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta

Delta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta
"""A piece of a reply, as it is streamed."""


class LiveFilter(Protocol):
    """A filter of the deltas of one model call."""

    def feed(self, delta: Delta, /) -> Iterable[Delta]:
        """Return the deltas to stream now instead of `delta`; an empty result delays it."""
        ...

    def flush(self) -> Iterable[Delta]:
        """Return the delayed deltas: the reply has ended."""
        ...

    def reset(self) -> None:
        """Start again: the attempt failed, and another one follows."""
        ...
