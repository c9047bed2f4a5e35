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


class Cut(Struct, frozen=True):
    """The ranges of messages that stay, and the messages that go."""

    kept: tuple[tuple[int, int], ...]
    gone: tuple[Message, ...]


def cut(history: Sequence[Message], keep: int, pinned: Pinned | None) -> Cut:
    """What stays when only the last turns are kept.

    Args:
        history: all messages.
        keep: how many turns stay at the end.
        pinned: what stays wherever it is.

    >>> from holdfast.core.messages import assistant, system, user
    >>> said = [system("Be kind."), user("a"), assistant("b"), user("c"), assistant("d")]
    >>> cut(said, 1, None).kept
    ((0, 1), (3, 5))
    """
    turns = _turns(history)
    first = max(len(turns) - keep, 0)
    kept: list[tuple[int, int]] = []
    gone: list[Message] = []
    for number, (start, end) in enumerate(turns):
        said = history[start:end]
        if number < first and said[0].role != "system" and not _stays(said, pinned):
            gone += said
        elif kept and kept[-1][1] == start:
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((start, end))
    return Cut(tuple(kept), tuple(gone))


def _stays(said: Sequence[Message], pinned: Pinned | None) -> bool:
    return pinned is not None and any(pinned(message) for message in said)


def _turns(history: Sequence[Message]) -> list[tuple[int, int]]:
    """From each message of a user or the system up to the next one."""
    starts = [at for at, message in enumerate(history) if message.role in ("user", "system")]
    return list(zip(starts, [*starts[1:], len(history)], strict=False))  # nothing of nothing


async def summary_of(gone: Sequence[Message], given: str | Summarize | None) -> str:
    """The text that stands for these messages; "" leaves them out.

    Raises:
        ConfigurationError: nobody can make one.
        NoTextError: the summariser said nothing.
    """
    if given is None:
        raise ConfigurationError(
            "summary",
            "is needed: this journal has no model",
            fix="Give a text, a function, or '' to leave the turns out; or use agent.sessions",
        )
    if isinstance(given, str):
        return given
    if not callable(given):
        raise ConfigurationError("summary", f"must be a text or a function, got {given!r}")
    made: object = await given(gone)
    if isinstance(made, str) and made.strip():
        return made
    raise NoTextError("the summary is empty; the history is as it was")
