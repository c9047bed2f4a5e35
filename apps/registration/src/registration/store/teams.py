"""Teams: which there are in a season, whether they need a kit, and who manages them."""

from __future__ import annotations

from msgspec import Struct

from registration.store.rows import describe, read_row, write_json
from registration.store.transaction import Transaction


class Team(Struct, frozen=True):
    """One team in one age group of a season."""

    season: str
    team: str
    age_group: str
    kit_needed: bool = False
    kit_type: str | None = None
    manager_emails: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return describe(self, ("season", "team", "age_group", "kit_needed"))


def save_team(tx: Transaction, team: Team) -> None:
    """Store a team, in place of an earlier entry."""
    tx.execute(
        "INSERT INTO team_info (season, team, age_group, kit_needed, kit_type, manager_emails_json)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (season, team, age_group) DO UPDATE SET"
        " kit_needed = excluded.kit_needed, kit_type = excluded.kit_type,"
        " manager_emails_json = excluded.manager_emails_json",
        *(team.season, team.team, team.age_group, team.kit_needed, team.kit_type),
        write_json(team.manager_emails),
    )


def find_team(tx: Transaction, season: str, team: str, age_group: str) -> Team | None:
    """Return a team, or None if the season has none of that name in the age group."""
    rows = tx.execute(
        "SELECT * FROM team_info WHERE season = ? AND team = ? AND age_group = ?",
        *(season, team, age_group),
    )
    return read_row(rows[0], Team) if rows else None


def list_teams(tx: Transaction, season: str) -> list[Team]:
    """Return the teams of a season."""
    rows = tx.execute("SELECT * FROM team_info WHERE season = ? ORDER BY team, age_group", season)
    return [read_row(row, Team) for row in rows]
