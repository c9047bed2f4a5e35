"""The fees of a season, in pence, and the days on which the monthly fee is taken.

The days are dates alone, so that no clock change moves one.
"""

import calendar
from datetime import date, timedelta

from msgspec import Struct

from registration.club.answers.club_matters import LAST_DAY
from registration.club.answers.dates import make_season_start


class Fees(Struct, frozen=True):
    """The amounts of a season.

    Args:
        signing: Once, in pence.
        monthly: Each month, in pence.
        sibling_monthly: Each month for a player with the same surname and parent's mobile number as another, in pence.
        months: How many months are paid: from September to May.
    """

    signing: int = 4500
    monthly: int = 2750
    sibling_monthly: int = 2475
    months: int = 9


def choose_monthly_fee(fees: Fees, *, sibling: bool) -> int:
    """Return the fee of a month in pence."""
    return fees.sibling_monthly if sibling else fees.monthly


def show_pence(pence: int) -> str:
    """Return an amount as `£27.50`."""
    return f"£{pence // 100}.{pence % 100:02d}"


# A Direct Debit needs some days before its first payment.
DAYS_AFTER_MANDATE = 5
LAST_MONTH = 5


class Schedule(Struct, frozen=True):
    """The payments of a subscription.

    Args:
        day: The day of the month that the parent chose; -1 for the last.
        dates: The days of the payments, from the first to the one in May.
    """

    day: int
    dates: tuple[date, ...]

    @property
    def first(self) -> date:
        """The day of the first payment."""
        return self.dates[0]

    @property
    def last(self) -> date:
        """The day of the last payment."""
        return self.dates[-1]


def plan_payments(day: int, mandate_on: date, season: str) -> Schedule | None:
    """Return when the monthly fee is taken; None when no payment day is left in the season.

    The first payment is at least five days after the mandate and not before September of the season, the last one is
    in May. In a month that is too short, the last day of the month stands for the chosen one.

    Args:
        day: The day of the month, 1 to 31, or -1 for the last.
        mandate_on: The date on which the mandate became active.
        season: As `2526`.

    Examples:
        >>> from datetime import date
        >>> plan_payments(31, date(2026, 2, 25), "2526").dates[:2]
        (datetime.date(2026, 3, 31), datetime.date(2026, 4, 30))
    """
    opening = make_season_start(season)
    earliest = max(opening, mandate_on + timedelta(days=DAYS_AFTER_MANDATE))
    months = [
        (opening.year + (month > 12), (month - 1) % 12 + 1) for month in range(9, 13 + LAST_MONTH)
    ]
    days = (place_day(day, year, month) for year, month in months)
    dates = tuple(one for one in days if one >= earliest)
    return Schedule(day, dates) if dates else None


def place_day(day: int, year: int, month: int) -> date:
    """Return a day of a month, or its last day when the month is shorter; -1 is the last day."""
    length = calendar.monthrange(year, month)[1]
    return date(year, month, length if day == LAST_DAY else min(day, length))
