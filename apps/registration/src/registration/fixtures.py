"""The teams and the last season's players of the demo and of tests.

This module must never be imported by the service itself.
"""

from __future__ import annotations

from datetime import date

from registration.store import Transaction
from registration.store.registrations import NewRegistration, Player, save_registration
from registration.store.teams import Team, save_team


def season_of(today: date) -> str:
    """Return the season that a date belongs to; one begins in July.

    >>> season_of(date(2026, 6, 30)), season_of(date(2026, 7, 1))
    ('2526', '2627')
    """
    first = today.year if today.month >= 7 else today.year - 1
    return f"{first % 100:02d}{(first + 1) % 100:02d}"


def list_codes(season: str) -> tuple[str, ...]:
    """Return codes that work: a younger player, an older one, and one of last season."""
    return (
        f"200-lions-u10-{season}",
        f"200-tigers-u16-{season}",
        f"100-tigers-u13-{season}-Jack-Smith",
    )


def list_teams(season: str) -> tuple[Team, ...]:
    """Return the teams of a season."""
    lions, tigers = ("lions@club.example",), ("tigers@club.example",)
    return (
        Team(season, "Lions", "u10s", True, "home", lions),
        Team(season, "Tigers", "u13s", False, None, tigers),
        Team(season, "Tigers", "u16s", True, "home", tigers),
    )


_JACK = {
    "parent_name": {"first": "Mary", "last": "Smith"},
    "child_name": {"first": "Jack", "last": "Smith"},
    "gender": "Male",
    "medical": {"has": False, "issues": [], "detail": ""},
    "played_last_season": True,
    "relationship": "Mother",
    "parent_phone": "07700900555",
    "parent_email": "mary@example.com",
    "consent": True,
    "parent_born": "09-09-1984",
    "parent_postcode": "HF12AB",
    "parent_house": "5",
    "parent_address": {
        "house": "5",
        "line_1": "5 Mill Lane",
        "town": "Northgate",
        "city": "Holdford",
        "postcode": "HF12AB",
        "full": "5 Mill Lane, Northgate, Holdford, HF1 2AB",
    },
    "parent_address_right": True,
    "same_address": True,
}


def seed_club(tx: Transaction, season: str) -> None:
    """Store the teams, and a player of last season; a second call changes nothing.

    Args:
        tx: the transaction.
        season: the season that registers now.
    """
    for team in list_teams(season):
        save_team(tx, team)
    first = int(season[:2])
    last_season, born = f"{first - 1:02d}{first:02d}", f"02-05-{2000 + first - 12}"
    player = Player(last_season, "Tigers", "u12s", "Jack", "Smith", born)
    new = NewRegistration(
        id="last-season-jack",
        session_id="",
        type="200",
        code=f"200-tigers-u12-{last_season}",
        player=player,
        answers={**_JACK, "child_born": born},
        payment_day=1,
        fee_pence=4500,
        monthly_pence=2750,
    )
    save_registration(tx, new, 0.0)
