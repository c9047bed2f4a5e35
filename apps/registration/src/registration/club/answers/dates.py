"""Dates of birth: any usual form, day first."""

import re
from datetime import date, datetime

from dateutil import parser

from registration.club.answers.checked import Asked, Checked, accept, refuse, tidy

FORM = "%d-%m-%Y"
UNREADABLE = (
    "I could not read that date. Could you give it as day, month and year, such as 14-03-2015?"
)
MONTHS = {name.lower() for names in parser.parserinfo.MONTHS for name in names}
WEEKDAY = re.compile(r"\b(mon|tues?|wed(nes)?|thu(rs?)?|fri|sat(ur)?|sun)(day)?\b")
WORDS = {"st", "nd", "rd", "th", "of", "the", *MONTHS}
FIRST_YEAR_OF_A_CHILD = 2007
FIRST_YEAR_OF_A_PARENT = 1900
AGE_OF_A_PARENT = 16


class DayFirst(parser.parserinfo):
    """How words are read as a date; a year of two digits is never in the future."""

    def __init__(self, today: date) -> None:
        super().__init__(dayfirst=True, yearfirst=False)
        self.today = today

    def convertyear(self, year: int, century_specified: bool = False) -> int:  # noqa: FBT001, FBT002, RUF100  # REASON: dateutil's own signature
        """Return the full year."""
        return year if year >= 100 or century_specified else complete_year(year, self.today)


def check_child_born(text: str, asked: Asked) -> Checked:
    """Accept a child's date of birth that fits the age group within a year; the value is `DD-MM-YYYY`."""
    born = read_date(text, asked.today)
    if born is None:
        return refuse(text, UNREADABLE)
    if born > asked.today:
        return refuse(text, "That date is still to come. Could you check the year for me?")
    if born.year < FIRST_YEAR_OF_A_CHILD:
        return refuse(
            text, "That year looks too early for a junior player. Could you check it for me?"
        )
    if not fits_age_group(born, asked.age_group, asked.season):
        group = asked.age_group.removesuffix("s").capitalize()
        return refuse(
            text,
            f"That date does not seem to fit the {group} age group. Could you check it, or ask your manager for "
            "the code of the right team?",
        )
    return accept(text, born.strftime(FORM))


def check_parent_born(text: str, asked: Asked) -> Checked:
    """Accept the date of birth of somebody who is at least 16; the value is `DD-MM-YYYY`."""
    born = read_date(text, asked.today)
    if born is None:
        return refuse(text, UNREADABLE.replace("2015", "1985"))
    if born > asked.today:
        return refuse(text, "That date is still to come. Could you check the year for me?")
    if born.year < FIRST_YEAR_OF_A_PARENT:
        return refuse(text, "That year looks too early. Could you check it for me?")
    if count_years(born, asked.today) < AGE_OF_A_PARENT:
        return refuse(
            text, "I need your own date of birth here rather than your child's. When were you born?"
        )
    return accept(text, born.strftime(FORM))


def read_date(text: str, today: date) -> date | None:
    """Return the date that a text names with day, month and year; None when one is missing or impossible."""
    plain = re.sub(r"\s*([-/.])\s*", r"\1", tidy(text).lower())
    plain = WEEKDAY.sub("", plain).strip(" .,")
    if not plain.isascii() or len(plain) > 40:
        return None
    if re.search("[a-z]", plain):
        return read_named_month(plain, today)
    return read_numbers(plain, today)


def read_numbers(text: str, today: date) -> date | None:
    """Return a date in digits: `14/03/2015`, `14.3.15`, `14 03 2015`, `2015-03-14`, `14032015`."""
    for form in (
        r"(?P<d>\d{1,2})(?P<s>[-/. ])(?P<m>\d{1,2})(?P=s)(?P<y>\d{4}|\d{2})",
        r"(?P<y>\d{4})(?P<s>[-/. ])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})",
        r"(?P<d>\d{2})(?P<m>\d{2})(?P<y>(?:19|20)\d{2})",
    ):
        found = re.fullmatch(form, text)
        if found:
            year = int(found["y"])
            full = year if len(found["y"]) == 4 else complete_year(year, today)
            return make_date(full, int(found["m"]), int(found["d"]))
    return None


def read_named_month(text: str, today: date) -> date | None:
    """Return a date with its month in words: `14 March 2015`, `March 14th, 2015`."""
    numbers = re.findall(r"\d+", text)
    words = re.findall(r"[a-z]+", text)
    if len(numbers) != 2 or not set(words) <= WORDS or len(set(words) & MONTHS) != 1:
        return None
    if not re.fullmatch(r"[\w ,./'-]*", text) or not any(len(number) <= 2 for number in numbers):
        return None
    plain = re.sub(r"\bthe\b", " ", text)
    # A part that is missing would be taken from the default: two defaults show it.
    try:
        read, again = (
            parser.parse(plain, parserinfo=DayFirst(today), default=default)
            for default in (datetime(2001, 2, 3), datetime(2004, 6, 7))  # noqa: DTZ001  # REASON: dates alone
        )
    except (ValueError, OverflowError):
        return None
    return read.date() if read == again else None


def complete_year(year: int, today: date) -> int:
    """Return the latest year that ends in two digits and is not in the future."""
    century = today.year - today.year % 100
    return century + year if century + year <= today.year else century - 100 + year


def make_date(year: int, month: int, day: int) -> date | None:
    """Return a date; None when there is no such day."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def count_years(born: date, today: date) -> int:
    """Return how old somebody is, in whole years."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def fits_age_group(born: date, age_group: str, season: str) -> bool:
    """Return whether a child fits an age group within a year; a year of school begins on 1 September."""
    begins = 2000 + int(season[:2])
    if age_group == "open":
        return born < date(begins - 15 + 1, 9, 1)
    age = int(age_group.strip("us"))
    return date(begins - age - 1, 9, 1) <= born < date(begins - age + 2, 9, 1)


def make_season_start(season: str) -> date:
    """Return 1 September of a season such as `2526`."""
    return date(2000 + int(season[:2]), 9, 1)


def parse_stored(born: str) -> date:
    """Return a date that is stored as `DD-MM-YYYY`."""
    return datetime.strptime(born, FORM).date()  # noqa: DTZ007  # REASON: dates alone
