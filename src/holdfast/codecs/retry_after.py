"""Reads from a response how long the provider asks to wait.

The sources, in order of precedence:

1. `retry-after-ms`, `x-ms-retry-after-ms`: milliseconds;
2. `retry-after`: seconds (a fraction is allowed) or an HTTP date;
3. a field of the body: `google.rpc.RetryInfo.retryDelay`, `retry_after`, `estimated_time`;
4. the text of the message: "try again in 4.2s", "retry after 20 seconds", "resets at 2026-05-15T15:00Z";
5. the rate limit headers. They say when a limit is fully reset, which is longer than needed, and
   successful responses have them too. So the caller reads them (`parse_bucket_wait`) only after a
   rate limit error.

A point in time is compared with the `date` header of the response, so that clock differences do not
matter, or with `now` without that header. A value that is not a number, infinite, negative or longer
than a year is ignored. So are 0 and a time in the past: they name no wait, and the next source is read.

This module never reads a clock, and never raises on any text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

LONGEST_WAIT = 366 * 86_400.0
"""Seconds; a longer wait is ignored."""

_MAY_BE_ZERO = frozenset("0.")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{0,18})?|\.\d{1,18}")
_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "msecs": 1e-3,
    "millisecond": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "mins": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3_600.0,
    "hr": 3_600.0,
    "hrs": 3_600.0,
    "hour": 3_600.0,
    "hours": 3_600.0,
    "d": 86_400.0,
    "day": 86_400.0,
    "days": 86_400.0,
}
_UNITS = "|".join(sorted(_UNIT_SECONDS, key=len, reverse=True))
_PIECE = re.compile(rf"({_NUMBER.pattern})\s{{0,3}}({_UNITS})(?![a-zµ])")
_DURATION = rf"(?:(?:{_NUMBER.pattern})\s{{0,3}}(?:{_UNITS})(?![a-zµ])(?:\s|,|and){{0,5}}){{1,6}}"
_SPOKEN = re.compile(
    r"\b(?:try again|try your request again|retry(?: your request)?|retrying|wait(?:ing)?|resets?)"
    rf" (?:again )?(?:in |after |for |at least )?(?:about |approximately |~ ?)?({_DURATION})"
)
_SPOKEN_SECONDS = re.compile(rf"\bretry[- ]after[: ]{{1,3}}({_NUMBER.pattern})(?![\w.:/-])")
_SPOKEN_RESET = re.compile(r"\bx-ratelimit-reset[:\s\"']{1,5}(\d{9,14})\b")
_SPOKEN_TIMESTAMP = re.compile(
    r"\b(?:resets?|try again|retry|available(?: again)?|regain access) (?:at|on|after|until) "
    r"(\d{4}-\d\d-\d\d)(?:t| | at )(\d\d:\d\d)(:\d\d)?(?:\.\d{1,9})?(?:z| utc)"
)
_LONGEST_TEXT = 8_000

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<h>\d\d):(?P<i>\d\d):(?P<s>\d\d)"
_DATES = (
    # Sun, 06 Nov 1994 08:49:37 GMT, and the older Sunday, 06-Nov-94 08:49:37 GMT
    re.compile(
        rf"[a-z]{{3,9}}, (?P<d>\d\d?)[ -](?P<m>[a-z]{{3}})[ -](?P<y>\d{{2,4}}) {_CLOCK} gmt"
    ),
    # Sun Nov  6 08:49:37 1994
    re.compile(rf"[a-z]{{3}} (?P<m>[a-z]{{3}}) {{1,2}}(?P<d>\d\d?) {_CLOCK} (?P<y>\d{{4}})"),
)
_TIMESTAMP = re.compile(
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)[t ]{_CLOCK}(?P<f>\.\d{{1,12}})?"
    r"(?P<z>z|[+-]\d\d:?\d\d)?",
)
LimitHeaders: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of headers: the rest of a rate limit, and when it is reset."""

LIMITS: LimitHeaders = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)
"""The names that most providers and gateways use."""

_BUCKET = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:reset(?:-.{1,64})?|.{1,64}-reset)")


class _Bucket(NamedTuple):
    remaining: float | None
    share: float
    wait: float


def parse_requested_wait(
    headers: Mapping[str, str],
    *,
    delays: Iterable[str] = (),
    text: str = "",
    now: float | None = None,
) -> float | None:
    """Return the wait in seconds that the provider asks for, or None (sources 1 to 4).

    Args:
        headers: of the response, names in lower case.
        delays: the delay fields of the body, unparsed.
        text: the provider's message.
        now: seconds since the epoch, used when the response has no `date`.

    >>> parse_requested_wait({"retry-after": "7"}, text="Please try again in 4.2s")
    7.0
    >>> parse_requested_wait({"retry-after-ms": "0"}, text="Rate limit reached. Please try again in 1m30s.")
    90.0
    """
    clock = _reference_time(headers, now)
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        wait = _plausible_seconds(_parse_number(headers.get(name, "")), 1e-3)
        if wait:
            return wait
    wait = _parse_retry_after(headers.get("retry-after", ""), clock)
    if wait:
        return wait
    for delay in delays:
        wait = parse_duration(delay)
        if wait:
            return wait
    return _parse_spoken_wait(text, clock) or None


def parse_bucket_wait(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds until the exceeded rate limit is reset, by the rate limit headers, or None.

    The exceeded limit is the one with `remaining` 0; of several, the one with the longest wait. If
    none is 0, it is the one with the smallest share remaining. A wait of 0 is None: it names no wait.

    >>> parse_bucket_wait({
    ...     "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s",
    ...     "x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "20ms"})
    360.0
    """
    clock = _reference_time(headers, now)
    buckets = [
        bucket
        for name, value in headers.items()
        if _BUCKET.fullmatch(name) and (bucket := _parse_bucket(headers, name, value, clock))
    ]
    empty = [bucket.wait for bucket in buckets if bucket.remaining == 0]
    if empty:
        return max(empty) or None
    if not buckets:
        return None
    scarcest = min(bucket.share for bucket in buckets)
    return max(bucket.wait for bucket in buckets if bucket.share == scarcest) or None


def parse_exhausted_wait(
    headers: Mapping[str, str], limits: LimitHeaders = LIMITS, *, now: float | None = None
) -> float | None:
    """Return the seconds until a limit that this response used up is reset, or None.

    Args:
        headers: of the response, names in lower case.
        limits: the header pairs to look up. This runs for every response, so only these are read.
        now: seconds since the epoch, used when the response has no `date`.

    >>> parse_exhausted_wait({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1.5s"})
    1.5
    """
    waits = []
    for remaining, reset in limits:
        left = headers.get(remaining)
        if left is None:
            continue
        # Most values begin with another digit, so the first character is checked before parsing.
        if left.lstrip()[:1] in _MAY_BE_ZERO and _parse_number(left.lstrip()) == 0:
            waits.append(_parse_reset(headers.get(reset, ""), _reference_time(headers, now)) or 0.0)
    return (max(waits) or None) if waits else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the value of `x-should-retry`, or None.

    >>> should_retry({"x-should-retry": "false"})
    False
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def parse_duration(text: str) -> float | None:
    """Return the seconds of "6m0s", "20ms", "34.07s", "1 minute 30 seconds" or a plain number, or None.

    >>> [parse_duration(text) for text in ("6m0s", "20ms", "4.2s", "7", "soon", "-1s", "inf")]
    [360.0, 0.02, 4.2, 7.0, None, None, None]
    """
    text = text.strip().lower()[:100]
    if (number := _parse_number(text)) is not None:
        return _plausible_seconds(number)
    if not re.fullmatch(_DURATION, text):
        return None
    return _plausible_seconds(_sum_units(text))


def parse_timestamp(text: str) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time (UTC without a zone), or None.

    >>> parse_timestamp("2025-08-08T15:41:00Z")
    1754667660.0
    """
    match = _TIMESTAMP.fullmatch(text.strip().lower()[:64])
    if match is None:
        return None
    day = _days_since_epoch(int(match["y"]), int(match["m"]), int(match["d"]))
    clock = _seconds_of_day(match)
    if day is None or clock is None:
        return None
    zone = match["z"] or "z"
    offset = 0 if zone == "z" else int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60
    sign = -1 if zone.startswith("-") else 1
    return day * 86_400.0 + clock + float(match["f"] or 0) - sign * offset


def parse_http_date(text: str) -> float | None:
    """Return the seconds since the epoch of an HTTP date in any of its three forms, or None.

    >>> parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT")
    784111777.0
    """
    text = text.strip().lower()[:64]
    match = next((found for date in _DATES if (found := date.fullmatch(text))), None)
    if match is None or match["m"] not in _MONTHS:
        return None
    year = int(match["y"])
    if year < 100:
        year += 1900 if year >= 70 else 2000
    day = _days_since_epoch(year, _MONTHS.index(match["m"]) + 1, int(match["d"]))
    clock = _seconds_of_day(match)
    return None if day is None or clock is None else day * 86_400.0 + clock


def _parse_retry_after(value: str, clock: float | None) -> float | None:
    if (seconds := _parse_number(value)) is not None:
        return _plausible_seconds(seconds)
    return _seconds_until(parse_http_date(value), clock)


def _parse_spoken_wait(text: str, clock: float | None) -> float | None:
    text = text[:_LONGEST_TEXT].lower()
    if match := _SPOKEN.search(text):
        return _plausible_seconds(_sum_units(match[1]))
    if match := _SPOKEN_SECONDS.search(text):
        return _plausible_seconds(float(match[1]))
    if match := _SPOKEN_RESET.search(text):
        return _parse_reset(match[1], clock)
    if match := _SPOKEN_TIMESTAMP.search(text):
        return _seconds_until(parse_timestamp(f"{match[1]}t{match[2]}{match[3] or ':00'}"), clock)
    return None


def _parse_bucket(
    headers: Mapping[str, str], name: str, value: str, clock: float | None
) -> _Bucket | None:
    wait = _parse_reset(value, clock)
    if wait is None:
        return None
    left = _parse_number(headers.get(name.replace("reset", "remaining"), ""))
    limit = _parse_number(headers.get(name.replace("reset", "limit"), ""))
    share = left / limit if left is not None and limit else 1.0
    return _Bucket(left, share, wait)


def _parse_reset(value: str, clock: float | None) -> float | None:
    """Parse a reset header: a duration, seconds, a Unix time in seconds or milliseconds, or a timestamp."""
    number = _parse_number(value)
    if number is None:
        timestamp = parse_timestamp(value)
        return parse_duration(value) if timestamp is None else _seconds_until(timestamp, clock)
    if number > 1e11:
        return _seconds_until(number / 1_000, clock)
    return _seconds_until(number, clock) if number > 1e9 else _plausible_seconds(number)


def _reference_time(headers: Mapping[str, str], now: float | None) -> float | None:
    server_time = parse_http_date(headers.get("date", ""))
    return now if server_time is None else server_time


def _seconds_until(timestamp: float | None, clock: float | None) -> float | None:
    if timestamp is None or clock is None or not math.isfinite(clock):
        return None
    return _plausible_seconds(max(0.0, timestamp - clock))


def _sum_units(text: str) -> float:
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PIECE.findall(text))


def _parse_number(text: str) -> float | None:
    """Parse a plain decimal number. A sign, an exponent, "inf" and "nan" are rejected."""
    text = text.strip()
    return float(text) if len(text) < 40 and text.isascii() and _NUMBER.fullmatch(text) else None


def _plausible_seconds(seconds: float | None, unit: float = 1.0) -> float | None:
    if seconds is None or not 0 <= seconds * unit <= LONGEST_WAIT:
        return None
    return round(seconds * unit, 9)


def _days_since_epoch(year: int, month: int, day: int) -> int | None:
    """Return the days from 1970-01-01 to a Gregorian date. The computation lets a year begin in March."""
    if not (1 <= month <= 12 and 1 <= day <= 31 and 1 <= year <= 9999):
        return None
    year -= month <= 2
    of_era = year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (year // 400) * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _seconds_of_day(match: re.Match[str]) -> int | None:
    hour, minute, second = int(match["h"]), int(match["i"]), int(match["s"])
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3_600 + minute * 60 + second
