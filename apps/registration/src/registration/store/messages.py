"""Messages: the answer to each, so that one that is sent twice is answered once."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from registration.store.rows import describe, read_row, write_json
from registration.store.transaction import Transaction


class Message(Struct, frozen=True):
    """A message as it is stored. Of its text there is only a digest."""

    session_id: str
    message_id: str
    turn: str
    text_digest: str
    created_at: float
    step: int | None = None
    answer: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return describe(self, ("session_id", "message_id", "turn", "step"))


class NewMessage(Struct, frozen=True):
    """A message that came in.

    Args:
        session_id: its session.
        message_id: its id, from the client, or made by the service.
        turn: the turn that answers it.
        text: the words; not stored.
        step: the step at which it came.
    """

    session_id: str
    message_id: str
    turn: str
    text: str
    step: int | None = None

    def __repr__(self) -> str:
        return describe(self, ("session_id", "message_id", "turn", "step"))


def save_message(tx: Transaction, new: NewMessage, now: float) -> tuple[Message, bool]:
    """Store a message, and return the stored one and whether it is new.

    If it is not, its `turn` is the one that answers it. A different `text_digest` shows that a
    client used an id twice.
    """
    digest = digest_text(new.session_id, new.text)
    inserted = tx.execute(
        "INSERT INTO messages (session_id, message_id, turn, step, text_digest, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session_id, message_id) DO NOTHING"
        " RETURNING message_id",
        *(new.session_id, new.message_id, new.turn, new.step, digest, now),
    )
    saved = find_message(tx, new.session_id, new.message_id)
    assert saved is not None  # noqa: S101 -- it was inserted just now, or before
    return saved, bool(inserted)


def find_message(tx: Transaction, session_id: str, message_id: str) -> Message | None:
    """Return a message, or None."""
    rows = tx.execute(
        "SELECT * FROM messages WHERE session_id = ? AND message_id = ?", session_id, message_id
    )
    return read_row(rows[0], Message) if rows else None


def find_message_of_turn(tx: Transaction, turn: str) -> Message | None:
    """Return the message that a turn answers, or None."""
    rows = tx.execute("SELECT * FROM messages WHERE turn = ?", turn)
    return read_row(rows[0], Message) if rows else None


def find_same_text(
    tx: Transaction, session_id: str, text: str, step: int | None, since: float
) -> Message | None:
    """Return the newest message of a session with this text, at this step, not older than `since`."""
    rows = tx.execute(
        "SELECT * FROM messages WHERE session_id = ? AND text_digest = ? AND created_at >= ?"
        " AND COALESCE(step, -1) = ? ORDER BY created_at DESC LIMIT 1",
        *(session_id, digest_text(session_id, text), since, -1 if step is None else step),
    )
    return read_row(rows[0], Message) if rows else None


def count_messages(tx: Transaction, session_id: str, until: float) -> int:
    """Return how many messages of a session came until a time."""
    rows = tx.execute(
        "SELECT COUNT(*) AS number FROM messages WHERE session_id = ? AND created_at <= ?",
        *(session_id, until),
    )
    return int(rows[0]["number"])


def save_answer(
    tx: Transaction, session_id: str, message_id: str, answer: Mapping[str, object]
) -> None:
    """Store the answer to a message; the first one holds."""
    tx.execute(
        "UPDATE messages SET answer_json = ? WHERE session_id = ? AND message_id = ?"
        " AND answer_json IS NULL",
        *(write_json(answer), session_id, message_id),
    )


def digest_text(session_id: str, text: str) -> str:
    """Return the digest of a message; equal texts of different sessions have different ones."""
    return sha256(f"{session_id}\n{text.strip()}".encode("utf-8", "surrogatepass")).hexdigest()
