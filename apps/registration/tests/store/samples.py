"""A child and a registration that the tests of the store use."""

from __future__ import annotations

from typing import Any

from registration.store import Database
from registration.store.registrations import (
    NewRegistration,
    Player,
    registration_id,
    save_registration,
    set_payment_request,
)
from registration.store.sessions import create_session

KEY = b"a key of the installation"
NOON = 1_757_937_600.0  # 2025-09-15 12:00 UTC
DAY = 86_400.0
ANSWERS: dict[str, Any] = {
    "parent_name": {"first": "Wilhelmina", "last": "Quackenbush"},
    "parent_phone": "07700900123",
    "parent_email": "wilhelmina@example.org",
    "child_name": {"first": "Zebedee", "last": "Quackenbush"},
    "medical": {"has": True, "issues": ["peanut allergy"], "detail": "EpiPen in the bag"},
}
# Texts that must be nowhere after a deletion.
PERSONAL = ("Quackenbush", "Zebedee", "07700900123", "wilhelmina@", "EpiPen", "peanut")


def player(first: str = "Zebedee", team: str = "Lions") -> Player:
    return Player("2526", team, "u10s", first, "Quackenbush", "03-04-2015")


def new_registration(session: str = "s1", who: Player | None = None) -> NewRegistration:
    who = who or player()
    return NewRegistration(
        id=registration_id(KEY, who),
        session_id=session,
        type="200",
        code="200-lions-u10-2526",
        player=who,
        answers={**ANSWERS, "child_name": {"first": who.first, "last": who.last}},
        payment_day=15,
        fee_pence=4500,
        monthly_pence=2750,
    )


async def register(
    database: Database, session: str = "s1", who: Player | None = None, now: float = NOON
) -> str:
    """Store a session and its registration with a payment request; return the registration's id."""
    new = new_registration(session, who)
    await database.transact(
        lambda tx: create_session(tx, session, f"token-{session}", "new_registration", now)
    )
    await database.transact(lambda tx: save_registration(tx, new, now))
    await database.transact(
        lambda tx: set_payment_request(tx, new.id, f"BR-{new.id}", f"link-{new.id}", now)
    )
    return new.id
