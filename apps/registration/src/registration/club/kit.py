"""Which size of kit a player needs, and which shirt numbers are free."""

from collections.abc import Collection

from registration.club.answers.club_matters import GOALKEEPER_NUMBERS, NUMBERS, SIZES
from registration.club.answers.dates import count_years, make_season_start, parse_stored

OFFERED = 3


def recommend_size(born: str, season: str) -> str:
    """Return the size for a child's age at the start of the season.

    Args:
        born: The date of birth as `DD-MM-YYYY`.
        season: As `2526`.
    """
    age = count_years(parse_stored(born), make_season_start(season))
    if age >= 17:
        return "M"
    if age >= 15:
        return "S"
    return SIZES[min(max(age - 5, 0) // 2, 4)]


def offer_free_numbers(taken: Collection[int], wanted: int) -> tuple[int, ...]:
    """Return up to three free shirt numbers, the nearest to the wanted one first.

    An outfield player is offered no goalkeeper's number, and a goalkeeper the other goalkeeper's number first.
    """
    free = [number for number in NUMBERS if number not in taken and number != wanted]
    wants_goal = wanted in GOALKEEPER_NUMBERS
    keepers = [number for number in free if number in GOALKEEPER_NUMBERS and wants_goal]
    others = [number for number in free if number not in GOALKEEPER_NUMBERS]
    others.sort(key=lambda number: (abs(number - wanted), number))
    return (*keepers, *others)[:OFFERED]


def name_kit_type(number: int) -> str:
    """Return which kit belongs to a shirt number."""
    return "goalkeeper" if number in GOALKEEPER_NUMBERS else "outfield"
