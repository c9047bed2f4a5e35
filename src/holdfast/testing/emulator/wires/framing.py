"""Another form of the same stream: one JSON array, sent piece by piece.

It works on the bytes of events whatever they hold, so that every fault has this form too. Nothing
here may mend what a fault spoiled.
"""

from __future__ import annotations

from collections.abc import Sequence

_DATA = b"data: "


def as_array(events: Sequence[bytes], *, closed: bool) -> list[bytes]:
    r"""The events as elements of one array, one piece each.

    Args:
        events: as a stream of events has them; what is no event stays as it is.
        closed: whether the bracket at the end comes.

    >>> as_array([b'data: {"a": 1}\r\n\r\n', b'data: {"b": 2}\n\n'], closed=True)
    [b'[{"a": 1}\n', b',\r\n{"b": 2}\n', b']']
    """
    pieces = [
        (b",\r\n" if at else b"[") + event.removeprefix(_DATA).rstrip(b"\r\n") + b"\n"
        for at, event in enumerate(events)
    ]
    return [*(pieces or [b"["]), b"]"] if closed else pieces
