"""The state of a machine between two turns, as one value, so that a long session opens quickly.

A snapshot is only a shortcut: replaying the records before it gives the same state, and a snapshot
that does not match is discarded. It must never hold anything that is not in those records.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.events import Event
from holdfast.core.messages import Message

FORMAT = 1
"""The version of the fields below and of the fold that computes them. Increase it when either
changes."""


class SessionSnapshot(Struct, frozen=True):
    """The state of a machine that waits for its next turn.

    Args:
        turn: the number of the latest turn or change.
        event_count: the number of records that were applied.
        last_event: the last of them.
        messages: the history.
        lengths: the length of the history after each turn or change.
        replaced_histories: histories that a change replaced, each with the number of that change.
    """

    turn: int
    event_count: int
    last_event: Event
    messages: tuple[Message, ...]
    lengths: tuple[int, ...]
    replaced_histories: tuple[tuple[int, tuple[Message, ...]], ...]
