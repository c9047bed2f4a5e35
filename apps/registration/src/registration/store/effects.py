"""Effects: acts outside, one outcome for each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from registration.store.rows import read_json, write_json
from registration.store.transaction import Transaction


class EffectOf(Struct, frozen=True):
    """Whom an effect belongs to, so that it can be deleted with them."""

    session_id: str | None = None
    registration_id: str | None = None


def find_effect(tx: Transaction, key: str) -> dict[str, Any] | None:
    """Return the outcome of an effect, or None if it was not performed as far as is known."""
    rows = tx.execute("SELECT outcome_json FROM effects WHERE key = ?", key)
    return read_json(rows[0]["outcome_json"]) if rows else None


def save_effect(
    tx: Transaction, key: str, outcome: Mapping[str, object], owner: EffectOf, now: float
) -> dict[str, Any]:
    """Save the outcome of an effect, and return the one that holds: the first that was saved.

    Args:
        tx: the transaction.
        key: the effect's key, for example `registration/{id}/payment`; its last part is the kind.
        outcome: its outcome.
        owner: whom it belongs to.
        now: the time, in seconds since 1970.
    """
    kind = key.rpartition("/")[2]
    row = (key, kind, owner.session_id, owner.registration_id, write_json(outcome), now)
    tx.execute(
        "INSERT INTO effects (key, kind, session_id, registration_id, outcome_json, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
        *row,
    )
    saved = find_effect(tx, key)
    assert saved is not None  # noqa: S101 -- it was inserted just now, or before
    return saved
