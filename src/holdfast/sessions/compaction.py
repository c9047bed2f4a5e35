"""Which messages a compaction takes away, and what stands for them.

Turns stay or go whole, so that no call is parted from its result. Nothing here may ask a model by
itself: whoever can makes a `Summarize`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.errors import ConfigurationError, NoTextError
from holdfast.core.messages import Message

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""Messages to a summary of them."""

Pinned: TypeAlias = Callable[[Message], bool]
"""Whether a message, and with it its turn, stays."""


class CompactionPlan(Struct, frozen=True):
    """The ranges of messages that stay, and the messages that go."""

    kept_ranges: tuple[tuple[int, int], ...]
    removed: tuple[Message, ...]


def plan_compaction(history: Sequence[Message], keep: int, pinned: Pinned | None) -> CompactionPlan:
    """What stays when only the last turns are kept.

    Args:
        history: all messages.
        keep: how many turns stay at the end.
        pinned: what stays wherever it is.

    >>> from holdfast.core.messages import assistant, system, user
    >>> said = [system("Be kind."), user("a"), assistant("b"), user("c"), assistant("d")]
    >>> plan_compaction(said, 1, None).kept
    ((0, 1), (3, 5))
    """
    turns = _find_turn_ranges(history)
    first = max(len(turns) - keep, 0)
    kept: list[tuple[int, int]] = []
    gone: list[Message] = []
    for number, (start, end) in enumerate(turns):
        said = history[start:end]
        if number < first and said[0].role != "system" and not _is_pinned(said, pinned):
            gone += said
        elif kept and kept[-1][1] == start:
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((start, end))
    return CompactionPlan(tuple(kept), tuple(gone))


def _is_pinned(turn: Sequence[Message], pinned: Pinned | None) -> bool:
    return pinned is not None and any(pinned(message) for message in turn)


def _find_turn_ranges(history: Sequence[Message]) -> list[tuple[int, int]]:
    """From each message of a user or the system up to the next one."""
    starts = [at for at, message in enumerate(history) if message.role in ("user", "system")]
    return list(zip(starts, [*starts[1:], len(history)], strict=False))  # nothing of nothing


async def make_summary(removed: Sequence[Message], summary: str | Summarize | None) -> str:
    """The text that stands for these messages; "" leaves them out.

    Raises:
        ConfigurationError: nobody can make one.
        NoTextError: the summariser said nothing.
    """
    if summary is None:
        raise ConfigurationError(
            "summary",
            "is needed: this journal has no model",
            fix="Give a text, a function, or '' to leave the turns out; or use agent.sessions",
        )
    if isinstance(summary, str):
        return summary
    if not callable(summary):
        raise ConfigurationError("summary", f"must be a text or a function, got {summary!r}")
    made: object = await summary(removed)
    if isinstance(made, str) and made.strip():
        return made
    raise NoTextError("the summary is empty; the history is as it was")
