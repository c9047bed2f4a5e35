"""Chooses the messages that a compaction removes, and makes the summary that replaces them.

A turn is kept or removed as a whole, so that no tool call loses its result. This module calls no
model: the caller passes a `Summarize` function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError, NoTextError
from holdfast.core.messages import Message

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""An async function from messages to their summary."""

Pinned: TypeAlias = Callable[[Message], bool]
"""A function that says whether a message, and so its whole turn, is kept."""


class CompactionPlan(Struct, frozen=True):
    """The index ranges of the messages that are kept, and the removed messages."""

    kept_ranges: tuple[tuple[int, int], ...]
    removed: tuple[Message, ...]


def plan_compaction(history: Sequence[Message], keep: int, pinned: Pinned | None) -> CompactionPlan:
    """Choose the messages that a compaction keeps. System messages are always kept.

    Args:
        history: all messages.
        keep: the number of turns to keep at the end.
        pinned: says which earlier messages to keep with their turns.

    >>> from holdfast.core.messages import assistant, system, user
    >>> history = [system("Be kind."), user("a"), assistant("b"), user("c"), assistant("d")]
    >>> plan_compaction(history, 1, None).kept_ranges
    ((0, 1), (3, 5))
    """
    turns = _find_turn_ranges(history)
    first = max(len(turns) - keep, 0)
    ranges: list[tuple[int, int]] = []
    removed: list[Message] = []
    for number, (start, end) in enumerate(turns):
        messages = history[start:end]
        if number < first and messages[0].role != "system" and not _is_pinned(messages, pinned):
            removed += messages
        elif ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return CompactionPlan(tuple(ranges), tuple(removed))


def _is_pinned(turn: Sequence[Message], pinned: Pinned | None) -> bool:
    return pinned is not None and any(pinned(message) for message in turn)


def _find_turn_ranges(history: Sequence[Message]) -> list[tuple[int, int]]:
    """Return the range from each user or system message to the next one."""
    starts = [index for index, message in enumerate(history) if message.role in ("user", "system")]
    # Not strict: without a start, the second list still has one item.
    return list(zip(starts, [*starts[1:], len(history)], strict=False))


async def make_summary(removed: Sequence[Message], summary: str | Summarize | None) -> str:
    """Make the text that replaces these messages; "" means no replacement.

    Raises:
        ConfigurationError: there is neither a summary nor a model to write one.
        NoTextError: the function returned no text.
    """
    if summary is None:
        raise ConfigurationError(
            "summary",
            "is required: there is no model to write it",
            fix="Pass a text, a function, or '' to remove the turns; or use agent.sessions",
        )
    check_value("summary", summary, str | Summarize)
    if isinstance(summary, str):
        return summary
    text: object = await summary(removed)
    if isinstance(text, str) and text.strip():
        return text
    raise NoTextError("the summary is empty; the history was not changed")
