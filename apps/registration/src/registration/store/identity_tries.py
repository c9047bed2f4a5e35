"""How often somebody tried to say whose a player is, over all sessions."""

from __future__ import annotations

from typing import Final

from registration.store.transaction import Transaction

SECONDS: Final = 86_400.0
"""After which the tries of a player are counted from the beginning."""


def count_try(tx: Transaction, key: str, now: float) -> int:
    """Count a try and return how many there were; tries at the same time are counted one by one."""
    rows = tx.execute(
        "INSERT INTO identity_tries (key, tries, since) VALUES (?, 1, ?) ON CONFLICT (key) DO UPDATE SET"
        " tries = CASE WHEN identity_tries.since <= ? THEN 1 ELSE identity_tries.tries + 1 END,"
        " since = CASE WHEN identity_tries.since <= ? THEN ? ELSE identity_tries.since END"
        " RETURNING tries",
        *(key, now, now - SECONDS, now - SECONDS, now),
    )
    tries: int = rows[0]["tries"]
    return tries


def forget_tries(tx: Transaction, key: str) -> None:
    """Begin to count again: the person was known."""
    tx.execute("DELETE FROM identity_tries WHERE key = ?", key)
