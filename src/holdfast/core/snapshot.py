"""What a machine knows between two turns, as one value, so that a long session opens quickly.

A snapshot is a shortcut only: the same is found by folding the records before it, and a snapshot
that does not fit is thrown away. It must never hold anything that is not in those records.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.events import Event
from holdfast.core.messages import Message

FORMAT = 1
"""Of the fields below, and of the fold that made them: a change of either takes the next number."""


class SessionSnapshot(Struct, frozen=True):
    """A machine that waits for its next turn.

    Args:
        turn: the latest number.
        event_count: how many records it has seen.
        last_event: the last of them.
        messages: the history.
        lengths: how long the history was after each number.
        replaced_histories: histories that a change replaced, each with the number of that change.
    """

    turn: int
    event_count: int
    last_event: Event
    messages: tuple[Message, ...]
    lengths: tuple[int, ...]
    replaced_histories: tuple[tuple[int, tuple[Message, ...]], ...]
