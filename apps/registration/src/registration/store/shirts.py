"""Shirt numbers: one in each team and age group, by a unique key."""

from __future__ import annotations

from msgspec import Struct

from registration.store.transaction import Transaction


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
    """Return the numbers that somebody has. Whose they are is told to nobody."""
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
