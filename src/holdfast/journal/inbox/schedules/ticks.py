"""The ticks of a schedule, in seconds since the epoch. Pure: the same arguments always give the same ticks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import TypeAlias
from zoneinfo import ZoneInfo

from holdfast.journal.inbox.schedules.cron import Cron, parse_cron
from holdfast.journal.inbox.schedules.schedule import Schedule, find_zone

Tick: TypeAlias = int
"""The time that a schedule names, in seconds since the epoch."""

_parse_cron = lru_cache(1000)(parse_cron)


def next_ticks(schedule: Schedule, after: float, until: float, limit: int = 1000) -> list[Tick]:
    """Return the ticks of a schedule after one time and up to another one, both in seconds.

    Args:
        schedule: the schedule.
        after: no tick at this time or before.
        until: a tick at this time still belongs to them.
        limit: at most so many.

    >>> every_hour = Schedule(name="a", agent="b", every=3600)
    >>> next_ticks(every_hour, 0.0, 7200.0)
    [3600, 7200]
    """
    return list(islice(_generate(schedule, after, min(until, schedule.ends_at)), limit))


def find_next_tick(schedule: Schedule, after: float) -> Tick | None:
    """Return the first tick after a time; None if there is none."""
    return next(iter(next_ticks(schedule, after, math.inf, 1)), None)


def find_delay(schedule: Schedule, tick: Tick) -> float:
    """Return how many seconds after a tick its turn may begin, by the jitter of the schedule.

    >>> schedule = Schedule(name="a", agent="b", every=3600, jitter=60)
    >>> find_delay(schedule, 3600) == find_delay(schedule, 3600) < 60
    True
    """
    name = f"{schedule.tenant}\x1f{schedule.name}\x1f{tick}"
    share = int.from_bytes(sha256(name.encode()).digest()[:6]) / 2**48
    return round(schedule.jitter * share, 3)


def format_tick(tick: Tick) -> str:
    """Return a tick as it stands in a request.

    >>> format_tick(3600)
    '1970-01-01T01:00:00Z'
    """
    return datetime.fromtimestamp(tick, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _generate(schedule: Schedule, after: float, until: float) -> Iterator[Tick]:
    at = math.floor(max(after, math.ceil(schedule.starts_at) - 1))
    zone = find_zone(schedule.zone)
    while True:
        found = (
            _find_interval(schedule, at)
            if schedule.every
            else _find_cron(_parse_cron(schedule.cron), zone, at)
        )
        if found is None or found > until:
            return
        yield found
        at = found


def _find_interval(schedule: Schedule, after: int) -> Tick:
    first = math.ceil(schedule.starts_at)
    return first + ((after - first) // schedule.every + 1) * schedule.every


def _find_cron(cron: Cron, zone: ZoneInfo, after: int) -> Tick | None:
    if cron.is_each_hour:
        return _find_elapsed(cron, zone, after)
    local = _to_local(after, zone)
    while (found := cron.find_next(local)) is not None:
        at = _to_tick(found, zone)
        if at > after:
            return at
        local = found  # the second one of two equal hours, or the end of a gap
    return None


def _find_elapsed(cron: Cron, zone: ZoneInfo, after: int) -> Tick | None:
    """Find the next tick of an expression for every hour: the local time of each instant counts."""
    offset = _find_offset(after, zone)
    while True:
        found = cron.find_next(_EPOCH + timedelta(seconds=after + offset))
        if found is None:
            return None
        at = round((found - _EPOCH).total_seconds()) - offset
        if _find_offset(at, zone) == offset:
            return at
        change = _find_change(after, at, zone)
        after, offset = change - 1, _find_offset(change, zone)


def _find_change(before: int, after: int, zone: ZoneInfo) -> int:
    """Return the first instant with another offset than `before`, where `after` has one."""
    offset = _find_offset(before, zone)
    while after - before > 1:
        middle = (before + after) // 2
        if _find_offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # REASON: a local time


def _to_local(at: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def _find_offset(at: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    return round(offset.total_seconds()) if offset is not None else 0


def _to_tick(local: datetime, zone: ZoneInfo) -> Tick:
    """Return the first instant with a local time, or the end of the gap in which there is none."""
    at = round(local.replace(tzinfo=zone).timestamp())
    if _to_local(at, zone) == local:
        return at
    # In a gap, the offset before it (fold=0) leads to an instant after it, and the other one to one before.
    before = round(local.replace(tzinfo=zone, fold=1).timestamp())
    return _find_change(min(before, at) - 1, max(before, at), zone)
