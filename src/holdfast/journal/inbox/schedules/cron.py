"""Parses cron expressions and finds the next local time that they name.

Pure, and without time zones: `ticks` knows about summer time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct

from holdfast.core.errors import ConfigurationError

_FIELDS: Final = (
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_MONTHS: Final = [
    "JAN",
    "FEB",
    "MAR",
    "APR",
    "MAY",
    "JUN",
    "JUL",
    "AUG",
    "SEP",
    "OCT",
    "NOV",
    "DEC",
]
_WEEKDAYS: Final = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_NAMES: Final = {
    "month": {name: number for number, name in enumerate(_MONTHS, 1)},
    "day of the week": {name: number for number, name in enumerate(_WEEKDAYS)},
}
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_PART: Final = re.compile(r"(?P<first>\*|\w+)(-(?P<last>\w+))?(/(?P<step>\d+))?", re.ASCII)
_LONGEST_WAIT: Final = 50 * 366  # days


class Cron(Struct, frozen=True):
    """The times that a cron expression names.

    Args:
        seconds: seconds of a minute, ascending; so also below.
        minutes: minutes of an hour.
        hours: hours of a day.
        days: days of a month.
        months: months, from 1.
        weekdays: days of the week, Sunday is 0.
        needs_both: whether a day must match `days` and `weekdays`, and not one of them.
    """

    seconds: Sequence[int]
    minutes: Sequence[int]
    hours: Sequence[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    needs_both: bool

    @property
    def is_each_hour(self) -> bool:
        """Whether it names times in every hour."""
        return len(self.hours) == 24

    def find_next(self, after: datetime) -> datetime | None:
        """Return the first local time after another one; None if there is none in 50 years.

        >>> parse_cron("30 9 * * MON-FRI").find_next(datetime(2026, 11, 27, 10))
        datetime.datetime(2026, 11, 30, 9, 30)
        """
        first = after.replace(microsecond=0) + timedelta(seconds=1)
        earliest = (first.hour, first.minute, first.second)
        day, last = first.date(), first.date().toordinal() + _LONGEST_WAIT
        while day.toordinal() <= last:
            if day.month not in self.months:
                day = _next_month(day)
            else:
                found = self._find_time(earliest) if self._has_day(day) else None
                if found is not None:
                    return datetime(day.year, day.month, day.day, *found)  # noqa: DTZ001  # REASON: a local time
                day += timedelta(days=1)
            earliest = (0, 0, 0)
        return None

    def _has_day(self, day: date) -> bool:
        matches = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return all(matches) if self.needs_both else any(matches)

    def _find_time(self, earliest: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Return the first time of a day that is not before another one."""
        for hour in (hour for hour in self.hours if hour >= earliest[0]):
            for minute in self.minutes:
                if (hour, minute) >= earliest[:2]:
                    for second in self.seconds:
                        if (hour, minute, second) >= earliest:
                            return hour, minute, second
        return None


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def parse_cron(text: str) -> Cron:
    """Parse a cron expression with five fields, or with six, of which the first are seconds.

    The fields are minute, hour, day of the month, month (1-12 or JAN-DEC) and day of the week (0-7 or
    SUN-SAT; 0 and 7 are Sunday). A field is `*`, a number, a range `1-5`, each with a step `/2`, or a list of
    these. If both days are given, one of them has to match, as in every cron. `@hourly`, `@daily`,
    `@weekly`, `@monthly` and `@yearly` are short forms.

    Raises:
        ConfigurationError: a field is wrong, or the expression names no time.

    >>> parse_cron("*/20 9-10 * * *").minutes
    (0, 20, 40)
    >>> parse_cron("0 24 * * *")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: cron: the hour '24' is not from 0 to 23
    """
    words = _SHORT.get(text.strip().lower(), text).upper().split()
    if len(words) not in (5, 6):
        raise ConfigurationError(
            "cron",
            f"has {len(words)} fields: {text!r}",
            fix="Write five fields (minute hour day month weekday), or six with seconds first",
        )
    words = ["0", *words] if len(words) == 5 else words
    sets = [_parse_field(word, *field) for word, field in zip(words, _FIELDS, strict=True)]
    seconds, minutes, hours, days, months, weekdays = sets
    cron = Cron(
        seconds=tuple(sorted(seconds)),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(number % 7 for number in weekdays),
        needs_both=words[3].startswith("*") or words[5].startswith("*"),
    )
    if cron.find_next(datetime(2000, 1, 1)) is None:  # noqa: DTZ001  # REASON: a local time
        raise ConfigurationError("cron", f"names no day that exists: {text!r}")
    return cron


def _parse_field(text: str, name: str, least: int, most: int) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None or found["step"] == "0" or (found["first"] == "*" and found["last"]):
            raise ConfigurationError("cron", f"the {name} {part!r} cannot be read")
        step = int(found["step"] or 1)
        if found["first"] == "*":
            first, last = least, most - (name == "day of the week")
        else:
            first = _parse_number(found["first"], name, least, most)
            last = most if found["step"] else first
            if found["last"]:
                last = _parse_number(found["last"], name, least, most)
        if last < first:
            raise ConfigurationError("cron", f"the {name} {part!r} ends before it begins")
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers)


def _parse_number(text: str, name: str, least: int, most: int) -> int:
    known = _NAMES.get(name, {}).get(text)
    number = known if known is not None else int(text) if text.isdecimal() else -1
    if not least <= number <= most:
        raise ConfigurationError("cron", f"the {name} {text!r} is not from {least} to {most}")
    return number
