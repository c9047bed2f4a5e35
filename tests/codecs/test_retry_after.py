"""Every way in which a provider says how long to wait, and everything that only looks like one."""

import math
from datetime import UTC, datetime, timedelta, timezone
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.retry_after import (
    LONGEST_WAIT,
    parse_bucket_wait,
    parse_duration,
    parse_http_date,
    parse_requested_wait,
    parse_timestamp,
    should_retry,
)

NOW = 1_754_667_600.0
SAID = "Fri, 08 Aug 2025 15:40:00 GMT"
"""The same time as NOW."""


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "20"}, 20),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "644"}, 0.644),
        ({"retry-after-ms": "644", "retry-after": "1"}, 0.644),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": "Fri, 08 Aug 2025 15:41:30 GMT"}, 90),
        ({"retry-after": "Friday, 08-Aug-25 15:41:30 GMT"}, 90),
        ({"retry-after": "Fri Aug  8 15:41:30 2025"}, 90),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1),
    ],
)
def test_the_headers_that_ask_to_wait(headers: dict[str, str], wait: float) -> None:
    assert parse_requested_wait(headers, now=NOW) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"retry-after": "0"}, ""),
        ({"retry-after-ms": "0", "retry-after": "0.0"}, "Please try again in 0s."),
        ({"retry-after": "Fri, 08 Aug 2025 15:39:00 GMT"}, ""),
    ],
)
def test_a_wait_of_zero_is_no_wait(headers: dict[str, str], text: str) -> None:
    assert parse_requested_wait(headers, delays=["0s"], text=text, now=NOW) is None
    assert parse_requested_wait(headers, delays=["0s", "4s"], text=text, now=NOW) == 4


@pytest.mark.parametrize(
    "value",
    [
        "",
        "inf",
        "-inf",
        "nan",
        "-5",
        "1e3",
        "1e999",
        "9" * 400,
        "99999999999",
        "0x10",
        "\u0663",
        "1;2",
        "Fri, 99 Aug 2025 15:41:30 GMT",
        "Fri, 08 Foo 2025 15:41:30 GMT",
        "soon",
        "\x00",
        "+5",
        "Fri, 08 Aug 2025 25:41:30 GMT",
        "Fri, 08 Aug 9999 15:41:30 GMT",
    ],
)
def test_values_that_are_not_times_are_ignored(value: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset", "anthropic-ratelimit-reset"):
        assert parse_requested_wait({name: value}, now=NOW) is None
        assert parse_bucket_wait({name: value}, now=NOW) is None


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 6ms. Contact us", 0.006),
        ("Please try again in 18.642s. Visit https://x.y", 18.642),
        ("Please try again in 7m12s", 432),
        ("Please try again in 1h2m3.5s.", 3723.5),
        ("try again in 1m30s", 90),
        ("Try again in 250ms", 0.25),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("Please retry after 4 seconds. To increase", 4),
        ("retry after 20 seconds", 20),
        ("Retry-After: 12", 12),
        ("Please retry your request in about 2 minutes.", 120),
        ("Please wait 45000 seconds before retrying.", 45_000),
        ("try again in 1 minute and 30 seconds", 90),
        ("Your limit resets in 5h.", 18_000),
        ("Rate limited. X-RateLimit-Reset: 1754667660000", 60),
        ("Rate limited. X-RateLimit-Reset: 1754667660", 60),
    ],
)
def test_the_words_that_ask_to_wait(text: str, wait: float) -> None:
    assert parse_requested_wait({}, text=text, now=NOW) == pytest.approx(wait)


@pytest.mark.parametrize(
    "text",
    [
        "usage limit reached for Token Plan Starter (0/0 used), resets at 2025-08-08T15:41:30Z (2056)",
        "You will regain access on 2025-08-08 at 15:41:30 UTC.",
        "Available again at 2025-08-08 15:41:30.000 UTC",
    ],
)
def test_a_moment_in_the_words_is_a_wait_until_it(text: str) -> None:
    moment = parse_timestamp("2025-08-08T15:41:30Z")
    assert moment is not None
    assert parse_requested_wait({}, text=text, now=moment - 40) == 40
    assert parse_requested_wait({}, text=text, now=moment + 40) is None
    assert parse_requested_wait({}, text=text) is None


@pytest.mark.parametrize(
    "text",
    [
        "resets at 2025-13-40T99:99Z",
        "access on 2025-08-08 at 15:41 in Lisbon",
        "Please try again later.",
        "please wait before trying again",
        "try again in a few minutes",
        "Limit: 10000 / min. Current: 20s",
        "retry after 2025-08-08",
        "retry after 3.1.4",
        "try again in -5s",
        "try again in 99999999999 days",
        "",
    ],
)
def test_words_without_a_time_say_nothing(text: str) -> None:
    assert parse_requested_wait({}, text=text, now=NOW) is None


def test_headers_take_precedence_over_the_body_and_the_body_over_the_message() -> None:
    headers, text = {"retry-after": "1"}, "try again in 3s"
    assert parse_requested_wait(headers, delays=["2s"], text=text) == 1
    assert parse_requested_wait({}, delays=["nonsense", "2s"], text=text) == 2
    assert parse_requested_wait({}, delays=["nonsense"], text=text) == 3


def test_a_moment_is_measured_by_the_clock_of_the_server() -> None:
    headers = {"retry-after": "Fri, 08 Aug 2025 15:41:30 GMT", "date": SAID}
    assert parse_requested_wait(headers, now=0.0) == 90
    assert parse_requested_wait(headers) == 90
    assert parse_requested_wait({"retry-after": headers["retry-after"]}) is None
    assert parse_requested_wait({"retry-after": headers["retry-after"]}, now=math.nan) is None


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("6m0s", 360),
        ("1s", 1),
        ("20ms", 0.02),
        ("59.7", 59.7),
        ("0s", None),
        ("1754667660", 60),
        ("1754667660000", 60),
        ("2025-08-08T15:41:00Z", 60),
        ("2025-08-08T17:41:00.5+02:00", 60.5),
        ("2025-08-08 15:41:00", 60),
        ("2025-08-08T15:30:00Z", None),
    ],
)
def test_every_form_of_a_reset(value: str, wait: float | None) -> None:
    names = (
        "x-ratelimit-reset",
        "x-ratelimit-reset-tokens",
        "ratelimit-reset",
        "x-ratelimit-reset-tokens-day",
        "anthropic-ratelimit-tokens-reset",
        "anthropic-ratelimit-unified-5h-reset",
    )
    for name in names:
        assert parse_bucket_wait({name: value}, now=NOW) == pytest.approx(wait), name


def test_the_empty_bucket_counts() -> None:
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1.2s",
    }
    assert parse_bucket_wait(headers) == 1.2
    assert parse_bucket_wait({**headers, "x-ratelimit-remaining-requests": "0"}) == 360
    assert parse_bucket_wait({**headers, "x-ratelimit-remaining-tokens": "1000"}) == 1.2


def test_the_empty_bucket_counts_at_anthropic_too() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2025-08-08T15:40:01Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2025-08-08T15:40:59Z",
        "date": SAID,
    }
    assert parse_bucket_wait(headers) == 59


def test_without_limits_there_is_no_bucket() -> None:
    assert parse_bucket_wait({"x-ratelimit-remaining-tokens": "0", "server": "x"}) is None


@pytest.mark.parametrize(("value", "said"), [("true", True), (" False ", False), ("1", None)])
def test_should_retry(value: str, said: bool | None) -> None:
    assert should_retry({"x-should-retry": value}) is said


def test_durations_that_are_none() -> None:
    wrong = ["", "s", "1x", "1s2", "one", "-1s", "1e5s", "1.2.3s", "400d"]
    assert [parse_duration(text) for text in wrong] == [None] * len(wrong)


@given(st.integers(0, 4_102_444_800))
def test_dates_are_read_as_the_standard_library_writes_them(moment: int) -> None:
    assert parse_http_date(formatdate(moment, usegmt=True)) == moment


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=ZONES).filter(lambda moment: moment.year > 1))
def test_timestamps_are_read_as_the_standard_library_writes_them(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert parse_timestamp(moment.isoformat()) == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow  # takes half a second or more
@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-reset-tokens"])
        | st.text(max_size=30),
        st.text(max_size=40) | st.integers().map(str) | st.floats().map(str),
        max_size=6,
    ),
    st.text(max_size=200),
    st.none() | st.floats(),
)
def test_nothing_raises_and_every_wait_can_be_waited(
    headers: dict[str, str], text: str, now: float | None
) -> None:
    for wait in (
        parse_requested_wait(headers, delays=[text], text=text, now=now),
        parse_bucket_wait(headers, now=now),
    ):
        assert wait is None or 0 <= wait <= LONGEST_WAIT
