"""Cron expressions, and the ticks of schedules across the changes of summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.journal.inbox.schedules.cron import parse_cron
from holdfast.journal.inbox.schedules.schedule import Schedule
from holdfast.journal.inbox.schedules.ticks import find_delay, find_next_tick, next_ticks

START = datetime(2026, 1, 1)  # noqa: DTZ001  # REASON: a local time, a Thursday


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("* * * * *", "01-01 00:01:00"),
        ("*/7 * * * * *", "01-01 00:00:07"),
        ("30 9 * * *", "01-01 09:30:00"),
        ("0 0 * * 0", "01-04 00:00:00"),
        ("0 0 * * 7", "01-04 00:00:00"),
        ("0 12 * * FRI-sat", "01-02 12:00:00"),
        ("0 12 15 * MON", "01-05 12:00:00"),  # one of both days, as in every cron
        ("0 12 */20 * MON", "06-01 12:00:00"),  # both, since one begins with a star
        ("0 0 29 feb *", "2028-02-29 00:00:00"),
        ("5/20 * * * *", "01-01 00:05:00"),
        ("10-20/5,50 4 1 JUN,MAR *", "03-01 04:10:00"),
        ("@monthly", "02-01 00:00:00"),
        ("59 59 23 31 12 *", "12-31 23:59:59"),
    ],
)
def test_the_next_time_of_an_expression(text: str, wanted: str) -> None:
    found = parse_cron(text).find_next(START)
    assert found is not None
    assert str(found).endswith(wanted)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("60 * * * *", "the minute '60' is not from 0 to 59"),
        ("* * 0 * *", "the day of the month '0'"),
        ("* * * 13 *", "the month '13'"),
        ("* * * * 8", "the day of the week '8'"),
        ("* * * * MUN", "the day of the week 'MUN'"),
        ("*/0 * * * *", "the minute '[*]/0' cannot be read"),
        ("5-1 * * * *", "ends before it begins"),
        ("1,,2 * * * *", "cannot be read"),
        ("-1 * * * *", "cannot be read"),
        ("*-5 * * * *", "cannot be read"),
        ("0 0 30 2 *", "names no day"),
        ("\u0665 * * * *", "cannot be read"),
    ],
)
def test_a_wrong_expression_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_cron(text)


numbers = st.integers(0, 59)
fields = st.one_of(
    st.just("*"),
    numbers.map(str),
    st.lists(numbers, min_size=1, max_size=4).map(lambda some: ",".join(map(str, some))),
    st.integers(1, 30).map(lambda step: f"*/{step}"),
    st.tuples(numbers, numbers).map(lambda two: f"{min(two)}-{max(two)}"),
)


def field_of(least: int, most: int) -> st.SearchStrategy[str]:
    def fits(text: str) -> bool:
        found = [int(one) for one in text.replace("-", ",").split(",") if one.isdecimal()]
        return all(least <= one <= most for one in found)

    return fields.filter(fits)


@given(
    minute=field_of(0, 59),
    hour=field_of(0, 23),
    weekday=field_of(0, 6),
    after=st.datetimes(START, START + timedelta(days=1500)),
)
def test_the_next_time_is_the_first_that_matches(
    minute: str, hour: str, weekday: str, after: datetime
) -> None:
    """Compared with a search minute by minute, which looks at every field for itself."""
    cron = parse_cron(f"{minute} {hour} * * {weekday}")
    found = cron.find_next(after)
    assert found is not None
    assert found > after
    at = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(3000):
        if (
            at.minute in cron.minutes
            and at.hour in cron.hours
            and at.isoweekday() % 7 in cron.weekdays
        ):
            break
        at += timedelta(minutes=1)
    else:
        return
    assert found == at


def local_ticks(cron: str, day: tuple[int, int, int], hours: int, zone: str) -> list[str]:
    """The ticks of some hours from the begin of a day."""
    start = datetime(*day, tzinfo=ZoneInfo(zone)).timestamp()
    schedule = Schedule(name="s", agent="a", cron=cron, zone=zone)
    ticks = next_ticks(schedule, start - 1, start + hours * 3600)
    return [datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%H:%M%z")[:-2] for at in ticks]


SPRING, AUTUMN = (2026, 3, 29), (2026, 10, 25)


@pytest.mark.parametrize(
    ("cron", "day", "wanted"),
    [
        ("30 2 * * *", SPRING, ["03:00+02"]),
        ("*/20 2 * * *", SPRING, ["03:00+02"]),
        ("0 2,3 * * *", SPRING, ["03:00+02"]),
        ("30 * * * *", SPRING, ["00:30+01", "01:30+01", "03:30+02", "04:30+02"]),
        ("30 2 * * *", AUTUMN, ["02:30+02"]),
        ("0 2-3 * * *", AUTUMN, ["02:00+02", "03:00+01"]),
        ("30 * * * *", AUTUMN, ["00:30+02", "01:30+02", "02:30+02", "02:30+01", "03:30+01"]),
    ],
)
def test_ticks_across_the_changes_of_summer_time(
    cron: str, day: tuple[int, int, int], wanted: list[str]
) -> None:
    hours = 4 if day == SPRING else 5
    assert local_ticks(cron, day, hours, "Europe/Berlin") == wanted


def test_a_gap_of_half_an_hour() -> None:
    assert local_ticks("15 2 * * *", (2026, 10, 4), 20, "Australia/Lord_Howe") == ["02:30+11"]


zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
)
crons = st.sampled_from(
    [
        "*/20 * * * *",
        "30 2 * * *",
        "15,45 1-3 * * *",
        "0 0 1 * *",
        "*/30 */5 * * * *",
        "7 * * * MON",
    ]
)
times = st.integers(1_700_000_000, 1_900_000_000)


@given(cron=crons, zone=zones, start=times, cut=st.integers(0, 20 * 86_400))
def test_ticks_are_the_same_however_they_are_asked_for(
    cron: str, zone: str, start: int, cut: int
) -> None:
    """One after another, in two parts, or at once; and each is a time that the expression names."""
    schedule = Schedule(name="s", agent="a", cron=cron, zone=zone)
    until = start + 20 * 86_400
    ticks = next_ticks(schedule, start, until, 40)
    assert ticks == sorted(set(ticks))
    assert all(start < tick <= until for tick in ticks)
    first = next_ticks(schedule, start, start + cut, 40)
    assert (first + next_ticks(schedule, start + cut, until, 40))[: len(ticks)] == ticks
    if ticks:
        assert find_next_tick(schedule, start) == ticks[0]
        assert next_ticks(schedule, ticks[0] - 1, until, 40)[0] == ticks[0]
    parsed = parse_cron(cron)
    for tick in ticks:
        local = datetime.fromtimestamp(tick, ZoneInfo(zone)).replace(tzinfo=None)
        before = datetime.fromtimestamp(tick - 1, ZoneInfo(zone)).replace(tzinfo=None)
        is_named = parsed.find_next(local - timedelta(seconds=1)) == local
        assert is_named or local - before > timedelta(seconds=1)  # the end of a gap


@given(every=st.integers(1, 100_000), starts=st.integers(0, 10**6), after=st.integers(-5, 10**7))
def test_intervals_count_from_their_start(every: int, starts: int, after: int) -> None:
    schedule = Schedule(name="s", agent="a", every=every, starts_at=float(starts))
    [tick] = next_ticks(schedule, after, 1e12, 1)
    assert tick > after
    assert tick >= starts
    assert (tick - starts) % every == 0
    assert tick - every <= max(after, starts - 1) or tick == starts


def test_a_schedule_ends() -> None:
    schedule = Schedule(name="s", agent="a", every=10, starts_at=100.0, ends_at=120.0)
    assert next_ticks(schedule, 0.0, 1e9) == [100, 110, 120]
    assert find_next_tick(schedule, 120.0) is None


@given(tick=times, jitter=st.integers(0, 3600))
def test_jitter_is_the_same_for_a_tick_and_below_its_limit(tick: int, jitter: int) -> None:
    schedule = Schedule(name="s", agent="a", every=10, jitter=jitter)
    other = Schedule(name="other", agent="a", every=10, jitter=jitter)
    assert 0 <= find_delay(schedule, tick) == find_delay(schedule, tick) <= jitter
    assert jitter < 100 or find_delay(schedule, tick) != find_delay(other, tick)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "a b"}, "name"),
        ({"name": ""}, "name"),
        ({"cron": "* * * * *"}, "either cron or every"),
        ({"every": 0}, "either cron or every"),
        ({"every": -1}, "every"),
        ({"every": 0, "cron": "x"}, "cron"),
        ({"zone": "Europe/Nowhere"}, "unknown time zone"),
        ({"zone": "../secret"}, "unknown time zone"),
        ({"jitter": -1}, "jitter"),
        ({"starts_at": float("nan")}, "starts_at"),
    ],
)
def test_a_wrong_schedule_names_the_field(fields: dict[str, object], wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        Schedule(**{"name": "s", "agent": "a", "every": 5, **fields})  # type: ignore[arg-type]


def test_utc_has_no_gaps() -> None:
    schedule = Schedule(name="s", agent="a", cron="0 */6 * * *")
    start = datetime(2026, 3, 29, tzinfo=UTC).timestamp()
    assert len(next_ticks(schedule, start, start + 86_400)) == 4
