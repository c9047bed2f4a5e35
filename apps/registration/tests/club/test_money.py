"""Fees and the days on which they are taken."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.club.fees import Fees, choose_monthly_fee, place_day, plan_payments, show_pence


def test_the_amounts_are_pence() -> None:
    fees = Fees()
    assert show_pence(fees.signing) == "£45.00"
    assert show_pence(choose_monthly_fee(fees, sibling=False)) == "£27.50"
    assert show_pence(choose_monthly_fee(fees, sibling=True)) == "£24.75"
    assert show_pence(5) == "£0.05"


@pytest.mark.parametrize(
    ("day", "mandate_on", "first", "count"),
    [
        (15, date(2025, 6, 1), date(2025, 9, 15), 9),
        (1, date(2025, 8, 27), date(2025, 9, 1), 9),
        (1, date(2025, 8, 28), date(2025, 10, 1), 8),
        (2, date(2025, 8, 28), date(2025, 9, 2), 9),
        (10, date(2025, 10, 5), date(2025, 10, 10), 8),
        (10, date(2025, 10, 6), date(2025, 11, 10), 7),
        (-1, date(2025, 8, 1), date(2025, 9, 30), 9),
        (31, date(2026, 2, 10), date(2026, 2, 28), 4),
        (31, date(2026, 2, 24), date(2026, 3, 31), 3),
        (31, date(2026, 5, 26), date(2026, 5, 31), 1),
    ],
)
def test_the_first_payment(day: int, mandate_on: date, first: date, count: int) -> None:
    schedule = plan_payments(day, mandate_on, "2526")
    assert schedule is not None
    assert (schedule.first, len(schedule.dates)) == (first, count)
    assert (schedule.last.year, schedule.last.month) == (2026, 5)


def test_after_may_there_is_no_payment_left() -> None:
    assert plan_payments(31, date(2026, 5, 27), "2526") is None
    assert plan_payments(1, date(2026, 11, 23), "2526") is None


@pytest.mark.parametrize(
    ("day", "month", "placed"),
    [(29, 2, 28), (30, 2, 28), (31, 4, 30), (31, 3, 31), (-1, 2, 28), (-1, 12, 31), (28, 2, 28)],
)
def test_a_day_that_a_month_lacks_is_its_last(day: int, month: int, placed: int) -> None:
    assert place_day(day, 2026, month) == date(2026, month, placed)


def test_a_leap_year() -> None:
    assert place_day(30, 2028, 2) == date(2028, 2, 29)


@given(
    day=st.integers(1, 31) | st.just(-1), mandate_on=st.dates(date(2025, 5, 1), date(2026, 7, 1))
)
def test_a_schedule_takes_one_payment_a_month_to_may(day: int, mandate_on: date) -> None:
    schedule = plan_payments(day, mandate_on, "2526")
    if schedule is None:
        assert mandate_on > date(2026, 4, 25)
        return
    months = [(one.year, one.month) for one in schedule.dates]
    assert len(set(months)) == len(months) <= 9
    assert months[-1] == (2026, 5)
    assert schedule.first >= max(date(2025, 9, 1), mandate_on + timedelta(days=5))
    assert all(one == place_day(day, one.year, one.month) for one in schedule.dates)
