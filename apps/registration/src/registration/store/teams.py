"""Teams: the teams of a season, whether they need a kit, who manages them, and the shirt numbers of their players."""

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


class Squad(Struct, frozen=True):
    """The players among whom a shirt number is unique."""

    season: str
    team: str
    age_group: str


def reserve_shirt(
    tx: Transaction, squad: Squad, number: int, registration_id: str, now: float
) -> bool:
    """Reserve a number for a registration; whether it has it now.

    A registration has one number: a number that it had before is free again. If the new one is
    taken, it keeps the old one.
    """
    tx.lock_row("registrations", "id", registration_id)
    where = (squad.season, squad.team, squad.age_group, number)
    reserved = tx.execute(
        "INSERT INTO shirt_numbers (season, team, age_group, number, registration_id, reserved_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING number",
        *(*where, registration_id, now),
    )
    if not reserved:
        return find_holder(tx, squad, number) == registration_id
    tx.execute(
        "DELETE FROM shirt_numbers WHERE season = ? AND registration_id = ?"
        " AND NOT (team = ? AND age_group = ? AND number = ?)",
        *(squad.season, registration_id, squad.team, squad.age_group, number),
    )
    tx.execute("UPDATE registrations SET shirt_number = ? WHERE id = ?", number, registration_id)
    return True


def taken_numbers(tx: Transaction, squad: Squad) -> frozenset[int]:
    """Return the numbers that somebody has, without their holders."""
    rows = tx.execute(
        "SELECT number FROM shirt_numbers WHERE season = ? AND team = ? AND age_group = ?",
        *(squad.season, squad.team, squad.age_group),
    )
    return frozenset(row["number"] for row in rows)


def find_holder(tx: Transaction, squad: Squad, number: int) -> str | None:
    """Return the id of the registration that has a number. For the program only."""
    rows = tx.execute(
        "SELECT registration_id FROM shirt_numbers"
        " WHERE season = ? AND team = ? AND age_group = ? AND number = ?",
        *(squad.season, squad.team, squad.age_group, number),
    )
    return str(rows[0]["registration_id"]) if rows else None
