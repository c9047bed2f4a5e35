"""Cuts long work into short pieces, so that an append waits for one piece at most.

A piece ends when its time is over, whatever it costs: many rows, long texts, pictures, or pages that
are not in the cache of the system.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

R = TypeVar("R", bound=tuple[object, ...])
T = TypeVar("T")

PIECE = 0.0005
"""Seconds after which a piece begins nothing more."""

_PAUSE = 0.0001


def fetch_piece(
    cursor: sqlite3.Cursor, convert: Callable[[tuple[object, ...]], R], seconds: float = PIECE
) -> tuple[list[R], bool]:
    """Fetch and convert one row, and as many more as the time allows.

    Returns:
        The rows, and whether they are all.
    """
    rows: list[R] = []
    end = time.monotonic() + seconds
    with closing(cursor):
        for row in cursor:
            rows.append(convert(row))
            if time.monotonic() > end:
                return rows, False
    return rows, True


def map_in_pieces(convert: Callable[[R], T], rows: Sequence[R]) -> list[T]:
    """Convert rows in a thread of its own, and let the other threads run between two pieces."""
    return [convert(row) for row in in_pieces(rows)]


def in_pieces(items: Iterable[T]) -> Iterator[T]:
    """Yield items in a thread of its own, and let the other threads run between two pieces."""
    end = time.monotonic() + PIECE
    for item in items:
        yield item
        if time.monotonic() > end:
            time.sleep(_PAUSE)  # a thread that waits for Python's lock gets it now, not after 5 ms
            end = time.monotonic() + PIECE
