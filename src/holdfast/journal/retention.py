"""Chooses which sessions of a journal are old enough to be deleted.

A session whose last turn has not ended is never chosen: it is running, waits for an answer, or has a
tool whose outcome is in doubt.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeInt, PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.journal.pieces import in_pieces

_SECONDS_PER_DAY = 86_400
_SORTED_AT_ONCE = 500


class Retention(Struct, frozen=True, kw_only=True):
    """How long sessions stay in a journal. A session that exceeds one of the limits is deleted.

    Args:
        days: the days after its last change.
        sessions: the maximum number of sessions; those that changed last stay.
        bytes: the maximum size of all events, snapshots and media; the sessions that changed last stay.
        keep: sessions that always stay; they count for the other limits.

    Raises:
        ConfigurationError: no limit is given, or one is invalid.

    >>> Retention(days=90, keep=("ada",))
    Retention(days=90, sessions=None, bytes=None, keep=('ada',))
    """

    days: float | None = None
    sessions: int | None = None
    bytes: int | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_value("days", self.days, PositiveFloat | None)
        check_value("sessions", self.sessions, NonNegativeInt | None)
        check_value("bytes", self.bytes, NonNegativeInt | None)
        check_value("keep", self.keep, tuple[str, ...])
        if self.days is None and self.sessions is None and self.bytes is None:
            raise ConfigurationError(
                "days", "is missing, and so are sessions and bytes", fix="Give at least one limit"
            )


class StoredSession(Struct, frozen=True):
    """A session of a journal, with the runs that belong to it.

    Args:
        session: its id.
        changed_at: the time of its latest record, in seconds since the epoch.
        bytes: the size of its events, snapshots and media.
        is_protected: whether one of its turns has not ended, or a process has a lease of it.
        records: the number of records of each run that belongs to it.
    """

    session: str
    changed_at: float
    bytes: int
    is_protected: bool
    records: tuple[tuple[str, int], ...] = ()


def choose_expired(
    stored: Sequence[StoredSession], retention: Retention, now: float
) -> list[StoredSession]:
    """Choose the sessions to delete, the oldest first.

    Args:
        stored: all sessions.
        retention: the limits.
        now: the time, in seconds since the epoch.

    >>> old, new = StoredSession("old", 0.0, 9, False), StoredSession("new", 86_400.0, 9, False)
    >>> [one.session for one in choose_expired([new, old], Retention(days=1), now=90_000.0)]
    ['old']
    """
    kept = set(retention.keep)
    protected = [one for one in stored if one.is_protected or one.session in kept]
    count, size = len(protected), sum(one.bytes for one in protected)
    names = {one.session for one in protected}
    expired = []
    for one in _iterate_newest_first(stored):
        if one.session in names:
            continue
        if _exceeds(retention, now - one.changed_at, count + 1, size + one.bytes):
            expired.append(one)
        else:
            count, size = count + 1, size + one.bytes
    return expired[::-1]


def _iterate_newest_first(stored: Sequence[StoredSession]) -> Iterator[StoredSession]:
    """Sort in parts, because Python runs no other thread while it sorts a long list."""

    def position(one: StoredSession) -> tuple[float, str]:
        return -one.changed_at, one.session

    starts = in_pieces(range(0, len(stored), _SORTED_AT_ONCE))
    parts = [sorted(stored[start : start + _SORTED_AT_ONCE], key=position) for start in starts]
    return in_pieces(heapq.merge(*parts, key=position))


def _exceeds(retention: Retention, age: float, count: int, size: int) -> bool:
    return (
        (retention.days is not None and age > retention.days * _SECONDS_PER_DAY)
        or (retention.sessions is not None and count > retention.sessions)
        or (retention.bytes is not None and size > retention.bytes)
    )
