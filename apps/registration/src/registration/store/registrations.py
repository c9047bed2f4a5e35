"""Registrations: the club's record of a player in a season."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from msgspec import Struct

from registration.store.payment_state import PaymentState
from registration.store.rows import describe, keep_known, read_row, write_json
from registration.store.secrets import derive_token, hash_secret
from registration.store.transaction import Transaction
from registration.store.webhooks import wake_events

# The columns that `update_registration` may write. Each other one has a function of its own, or never changes.
_WRITABLE: Final = frozenset(
    {
        "answers",
        "session_id",
        "status",
        "payment_day",
        "fee_pence",
        "monthly_pence",
        "sms_status",
        "payment_asked_at",
        "suspended_at",
        "kit_required",
        "kit_type",
        "kit_size",
        "photo_file",
        "conversation",
    }
)


class Player(Struct, frozen=True):
    """Who plays where: one registration each."""

    season: str
    team: str
    age_group: str
    first: str
    last: str
    born: str  # DD-MM-YYYY

    @property
    def key(self) -> str:
        """The names without case, accents and punctuation, and the date of birth."""
        return f"{normalise_name(self.first)}|{normalise_name(self.last)}|{self.born}"

    def __repr__(self) -> str:
        return describe(self, ("season", "team", "age_group"))


class NewRegistration(Struct, frozen=True):
    """The first values of a registration.

    The payment link works from the beginning, for it may be sent before the provider answers; only
    the hash of its token is stored.
    """

    id: str
    session_id: str
    type: str  # "100" or "200"
    code: str
    player: Player
    answers: dict[str, Any]
    payment_day: int | None
    fee_pence: int
    monthly_pence: int
    link_token: str | None = None

    def __repr__(self) -> str:
        return describe(self, ("id", "session_id", "type"))


class Registration(Struct, frozen=True):
    """A registration as it is stored."""

    id: str
    session_id: str | None
    type: str
    season: str
    code: str
    team: str
    age_group: str
    player_first: str
    player_last: str
    player_born: str
    answers: dict[str, Any]
    status: str
    payment_day: int | None
    fee_pence: int
    monthly_pence: int
    billing_request: str | None
    fee_status: str | None
    signing_fee_paid: bool
    mandate: str | None
    mandate_authorised: bool
    subscription: str | None
    subscription_activated: bool
    sms_status: str | None
    payment_asked_at: float | None
    suspended_at: float | None
    follow_ups: int
    kit_required: bool | None
    kit_type: str | None
    kit_size: str | None
    shirt_number: int | None
    photo_file: str | None
    created_at: float
    updated_at: float
    conversation: list[Any] | None = None

    def __repr__(self) -> str:
        return describe(self, ("id", "status", "team", "age_group"))


class Unpaid(Struct, frozen=True):
    """A registration that waits for its first payment."""

    id: str
    payment_asked_at: float


def normalise_name(name: str) -> str:
    """Return a name for comparison: "O'Brien" and "obrien", "Zoë" and "zoe" are the same."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    kept = (one for one in plain if one.isalnum() or one.isspace())
    return " ".join("".join(kept).split())


def registration_id(key: bytes, player: Player) -> str:
    """Return the id of a player's registration: always the same one, and not guessable.

    The keys of effects contain it. After a database was restored from a backup, the same player
    gets the same id, and so the provider answers with the payment that it already has.

    Args:
        key: a secret of the installation, at least 16 bytes.
        player: the player.
    """
    where = (player.season, player.team.casefold(), player.age_group.casefold())
    return derive_token(key, "registration", *where, player.key)


def save_registration(tx: Transaction, new: NewRegistration, now: float) -> Registration:
    """Store a registration with status `incomplete`, and return the one that holds.

    If this player is registered already, nothing is written and the stored one is returned: compare
    its `id` or `session_id` to see whose it is.
    """
    player = new.player
    row = (
        *(new.id, new.session_id, new.type, player.season, new.code, player.team),
        *(player.age_group, player.first, player.last, player.born, player.key),
        *(write_json(new.answers), new.payment_day, new.fee_pence, new.monthly_pence, now, now),
        None if new.link_token is None else hash_secret(new.link_token),
    )
    tx.execute(
        "INSERT INTO registrations (id, session_id, type, season, code, team, age_group,"
        " player_first, player_last, player_born, player_key, answers_json, payment_day,"
        " fee_pence, monthly_pence, created_at, updated_at, link_hash, status)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'incomplete')"
        " ON CONFLICT DO NOTHING",
        *row,
    )
    saved = find_player(tx, player)
    if saved is None:
        # Another player has this id: ids that are made by hand, or a changed key.
        raise ValueError(f"the id {new.id} belongs to another player")
    return saved


def load_registration(tx: Transaction, registration: str) -> Registration | None:
    """Return a registration, or None."""
    return _find_one(tx, "id = ?", registration)


def find_player(tx: Transaction, player: Player) -> Registration | None:
    """Return the registration of exactly this player in this season, or None."""
    where = "season = ? AND team = ? AND age_group = ? AND player_key = ?"
    return _find_one(tx, where, player.season, player.team, player.age_group, player.key)


def find_by_name(tx: Transaction, team: str, first: str, last: str) -> list[Registration]:
    """Return the registrations of players of a team with this name, of all seasons, newest first."""
    key = f"{normalise_name(first)}|{normalise_name(last)}|"
    rows = tx.execute(
        "SELECT * FROM registrations WHERE team = ? AND substr(player_key, 1, ?) = ?"
        " ORDER BY season DESC, created_at DESC",
        *(team, len(key), key),
    )
    return [_read(row) for row in rows]


def find_of_session(tx: Transaction, session_id: str) -> Registration | None:
    """Return the newest registration that was begun in a session, or None."""
    return _find_one(tx, "session_id = ?", session_id)


def find_by_link(tx: Transaction, token: str) -> Registration | None:
    """Return the registration whose payment link has this token, or None."""
    return _find_one(tx, "link_hash = ?", hash_secret(token))


def count_siblings(tx: Transaction, season: str, last: str, parent_phone: str) -> int:
    """Return how many players of a season have this surname and this parent's mobile."""
    # Normalised names hold letters, digits and spaces only, and so nothing that LIKE would read.
    rows = tx.execute(
        "SELECT answers_json FROM registrations WHERE season = ? AND player_key LIKE ?",
        *(season, f"%|{normalise_name(last)}|%"),
    )
    found = [read_row(row, _Family) for row in rows]
    return sum(one.answers.get("parent_phone") == parent_phone for one in found)


def set_payment_request(
    tx: Transaction, registration: str, billing_request: str, link_token: str, now: float
) -> None:
    """Remember the billing request and the token of the link; only the token's hash is stored.

    The status becomes `pending_payment` if it was `incomplete`. Chasing counts from the first call.
    """
    tx.execute(
        "UPDATE registrations SET billing_request = ?, link_hash = ?,"
        " payment_asked_at = COALESCE(payment_asked_at, ?), updated_at = ?,"
        " status = CASE status WHEN 'incomplete' THEN 'pending_payment' ELSE status END"
        " WHERE id = ?",
        *(billing_request, hash_secret(link_token), now, now, registration),
    )
    wake_events(tx, billing_request, now)


def update_registration(
    tx: Transaction, registration: str, now: float, **values: object
) -> Registration | None:
    """Write some columns of a registration and return it, or None if it was deleted.

    Args:
        tx: the transaction.
        registration: its id.
        now: the time, in seconds since 1970.
        values: the columns; `answers` and `conversation` are written as JSON.

    Raises:
        ValueError: a column does not exist or may not be written.
    """
    keep_known(values, _WRITABLE)
    columns = {"updated_at": now, **values}
    json = {"answers", "conversation"}
    names = [f"{name}_json" if name in json else name for name in columns]
    written: list[Any] = [
        write_json(value) if name in json else value for name, value in columns.items()
    ]
    settings = ", ".join(f"{name} = ?" for name in names)
    statement = f"UPDATE registrations SET {settings} WHERE id = ? RETURNING *"  # noqa: S608 -- names of _WRITABLE
    rows = tx.execute(statement, *written, registration)
    return _read(rows[0]) if rows else None


class _Family(Struct):
    answers: dict[str, Any]


def correct_player(
    tx: Transaction, registration: str, *, first: str, last: str, born: str, now: float
) -> bool:
    """Correct the name or the date of birth of a player; whether it was possible.

    It is not if the registration was deleted, or if another one is for this player already.
    """
    known = load_registration(tx, registration)
    if known is None:
        return False
    player = Player(known.season, known.team, known.age_group, first, last, born)
    other = find_player(tx, player)
    if other is not None and other.id != registration:
        return False
    answers = {**known.answers, "child_name": {"first": first, "last": last}, "child_born": born}
    rows = tx.execute(
        "UPDATE registrations SET player_first = ?, player_last = ?, player_born = ?,"
        " player_key = ?, answers_json = ?, updated_at = ? WHERE id = ? RETURNING id",
        *(first, last, born, player.key, write_json(answers), now, registration),
    )
    return bool(rows)


def save_payment_state(
    tx: Transaction, registration: str, state: PaymentState, now: float
) -> Registration | None:
    """Write the state by the provider's events into a registration, and return it.

    Who completed the payment is `active`, also after being suspended. A fee that was paid and is
    lost later changes the flags and not the status: a person decides about that.
    """
    rows = tx.execute(
        "UPDATE registrations SET fee_status = ?, signing_fee_paid = ?, mandate = ?,"
        " mandate_authorised = ?, subscription = COALESCE(?, subscription),"
        " subscription_activated = COALESCE(?, subscription_activated), updated_at = ?,"
        " status = CASE WHEN ? = 1 THEN 'active' ELSE status END WHERE id = ? RETURNING *",
        *(state.fee_status, state.fee_paid, state.mandate, state.mandate_authorised),
        *(state.subscription, _is_active(state), now, state.was_complete, registration),
    )
    return _read(rows[0]) if rows else None


def save_subscription(tx: Transaction, registration: str, subscription: str, now: float) -> None:
    """Save the subscription that the provider created, unless an event has reported it before."""
    tx.execute(
        "UPDATE registrations SET subscription = ?, subscription_activated = 1, updated_at = ?"
        " WHERE id = ? AND subscription IS NULL",
        *(subscription, now, registration),
    )


def list_unpaid(tx: Transaction) -> list[Unpaid]:
    """Return the registrations that wait for the first payment."""
    rows = tx.execute(
        "SELECT id, payment_asked_at FROM registrations WHERE status = 'pending_payment'"
        " AND payment_asked_at IS NOT NULL ORDER BY payment_asked_at, id"
    )
    return [read_row(row, Unpaid) for row in rows]


def list_registration_ids(tx: Transaction, season: str) -> list[str]:
    """Return the ids of all registrations of a season."""
    rows = tx.execute("SELECT id FROM registrations WHERE season = ? ORDER BY id", season)
    return [row["id"] for row in rows]


def record_follow_up(tx: Transaction, registration: str, now: float) -> None:
    """Count a reminder."""
    tx.execute(
        "UPDATE registrations SET follow_ups = follow_ups + 1, updated_at = ? WHERE id = ?",
        *(now, registration),
    )


def suspend_registration(tx: Transaction, registration: str, now: float) -> bool:
    """Suspend a registration that still waits for its payment; whether it did."""
    rows = tx.execute(
        "UPDATE registrations SET status = 'suspended', suspended_at = ?, updated_at = ?"
        " WHERE id = ? AND status = 'pending_payment' RETURNING id",
        *(now, now, registration),
    )
    return bool(rows)


def _is_active(state: PaymentState) -> bool | None:
    if state.subscription_status is None:
        return None
    return state.subscription_status == "created"


def _find_one(tx: Transaction, where: str, *parameters: str) -> Registration | None:
    statement = f"SELECT * FROM registrations WHERE {where} ORDER BY created_at DESC LIMIT 1"  # noqa: S608 -- conditions of this module
    rows = tx.execute(statement, *parameters)
    return _read(rows[0]) if rows else None


def _read(row: dict[str, Any]) -> Registration:
    return read_row(row, Registration)
