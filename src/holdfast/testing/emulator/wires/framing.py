"""Converts a stream of events to one JSON array, sent in parts.

It converts the bytes of events without parsing them, so that it preserves faults.
"""

from __future__ import annotations

from collections.abc import Sequence

_DATA = b"data: "


def as_array(events: Sequence[bytes], *, closed: bool) -> list[bytes]:
    r"""Convert events to the elements of one array, one part each.

    Args:
        events: the events of the stream; other bytes stay unchanged.
        closed: whether to add the closing bracket.

    >>> as_array([b'data: {"a": 1}\r\n\r\n', b'data: {"b": 2}\n\n'], closed=True)
    [b'[{"a": 1}\n', b',\r\n{"b": 2}\n', b']']
    """
    pieces = [
        (b",\r\n" if at else b"[") + event.removeprefix(_DATA).rstrip(b"\r\n") + b"\n"
        for at, event in enumerate(events)
    ]
    return [*(pieces or [b"["]), b"]"] if closed else pieces
