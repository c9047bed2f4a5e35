"""Sessions: who talks, how far the conversation is, and how often somebody guessed at a player's parent."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from registration.store.errors import ProgressChanged
from registration.store.rows import describe, read_row
from registration.store.secrets import hash_secret, is_same_secret
from registration.store.transaction import Transaction


class Session(Struct, frozen=True):
    """A session as it is stored; `progress` is written by `flow.conversations`."""

    id: str
    token_hash: str
    agent: str
    progress: dict[str, Any]
    version: int
    created_at: float
    updated_at: float
    finished_at: float | None = None

    def __repr__(self) -> str:
        return describe(self, ("id", "agent", "version"))


def create_session(tx: Transaction, session_id: str, token: str, agent: str, now: float) -> None:
    """Store a new session without progress, at version 0. Only the token's hash is stored."""
    tx.execute(
        "INSERT INTO sessions (id, token_hash, agent, progress_json, version, created_at, updated_at)"
        " VALUES (?, ?, ?, '{}', 0, ?, ?)",
        *(session_id, hash_secret(token), agent, now, now),
    )


def load_session(tx: Transaction, session_id: str) -> Session | None:
    """Return a session, or None if there is no such session."""
    rows = tx.execute("SELECT * FROM sessions WHERE id = ?", session_id)
    return read_row(rows[0], Session) if rows else None


def find_session(tx: Transaction, session_id: str, token: str) -> Session | None:
    """Return a session if the token is its own; the answer for a wrong one is as for none."""
    session = load_session(tx, session_id)
    if session is None or not is_same_secret(token, session.token_hash):
        return None
    return session


def save_progress(
    tx: Transaction, session_id: str, progress_json: str, version: int, now: float
) -> int:
    """Save the progress that follows from the one of `version`, and return the new version.

    Args:
        tx: the transaction.
        session_id: the session.
        progress_json: the whole progress, as JSON.
        version: the version that was read.
        now: the time, in seconds since 1970.

    Raises:
        ProgressChanged: the stored version is another one, or the session was deleted.
    """
    saved = tx.execute(
        "UPDATE sessions SET progress_json = ?, version = version + 1, updated_at = ?"
        " WHERE id = ? AND version = ? RETURNING version",
        *(progress_json, now, session_id, version),
    )
    if not saved:
        raise ProgressChanged(f"session {session_id} is no longer at version {version}")
    return version + 1


def finish_session(tx: Transaction, session_id: str, now: float) -> None:
    """Remember that the registration of a session is complete; a second call changes nothing."""
    tx.execute(
        "UPDATE sessions SET finished_at = ? WHERE id = ? AND finished_at IS NULL", now, session_id
    )


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
