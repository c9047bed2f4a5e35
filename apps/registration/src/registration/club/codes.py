"""The code that a parent gets from the manager: `200-lions-u10-2526`, `100-tigers-u13-2526-Jack-Smith`."""

import re
from collections.abc import Collection
from typing import Literal

from registration.club.redaction import Redacted

INVALID_CODE = (
    "The code you have entered is not a valid registration code. Please check the code or speak to the "
    "manager / coach who provided the code and ask them to verify that the code is correct."
)


class RegistrationCode(Redacted, frozen=True):
    """A code that has the right form and belongs to a team of the club.

    Args:
        kind: `200` for a new player, `100` for one who played here before.
        team: The team's name, capitalised.
        age_group: As the club stores it: `u10s`, or `open`.
        season: Two years as four digits: `2526`.
        first: The player's first name; in codes of the kind `100` alone.
        last: The player's last name; in codes of the kind `100` alone.
    """

    kind: Literal["100", "200"]
    team: str
    age_group: str
    season: str
    first: str | None = None
    last: str | None = None

    @property
    def text(self) -> str:
        """The code as a parent types it."""
        age = self.age_group.removesuffix("s")
        name = f"-{self.first}-{self.last}" if self.first else ""
        return f"{self.kind}-{self.team.lower()}-{age}-{self.season}{name}"


class WrongCode(Redacted, frozen=True):
    """A text that has the form of a code but is none: the parent hears `INVALID_CODE`."""

    reason: Literal["name_missing", "name_unexpected", "team_unknown"]


def read_code(
    text: str, season: str, teams: Collection[tuple[str, str]]
) -> RegistrationCode | WrongCode | None:
    """Return the code that a message consists of; None when the message is something else.

    Args:
        text: The whole message.
        season: The season that registers now, as `2526`.
        teams: The teams of the club, as pairs of a capitalised name and an age group (`Lions`, `u10s`).
    """
    form = (
        rf"(100|200)-([A-Za-z0-9_]+)-(u\d+|open)-{re.escape(season)}(?:-([A-Za-z]+)-([A-Za-z]+))?"
    )
    found = re.fullmatch(form, text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        return None
    kind, team, age, first, last = found.groups()
    team, age_group = team.capitalize(), name_age_group(age)
    if kind == "200":
        if first:
            return WrongCode("name_unexpected")
    elif not first:
        return WrongCode("name_missing")
    if (team, age_group) not in teams:
        return WrongCode("team_unknown")
    if kind == "200":
        return RegistrationCode("200", team, age_group, season)
    return RegistrationCode("100", team, age_group, season, first.capitalize(), last.capitalize())


def name_age_group(age: str) -> str:
    """Return an age group as the club stores it: `U10` is `u10s`."""
    lowered = age.lower()
    if lowered == "open":
        return lowered
    return f"u{lowered[1:].lstrip('0') or '0'}s"


def is_sixteen_or_over(age_group: str) -> bool:
    """Return whether players of an age group give their own contact data; `open` counts as 16 and over."""
    return age_group == "open" or read_age(age_group) >= 16


def read_age(age_group: str) -> int:
    """Return the number of an age group: 10 for `u10s`."""
    return int(age_group.strip("us"))
