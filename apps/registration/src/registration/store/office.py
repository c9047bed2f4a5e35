"""The content of the club's office page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct

from registration.store.rows import describe, read_row
from registration.store.transaction import Transaction

Status = Literal["incomplete", "pending_payment", "active", "suspended"]
PAGE: Final = 100

# In front of one of these, a spreadsheet takes a cell for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Listed(Struct, frozen=True):
    """A registration in a list of the office."""

    id: str
    type: str
    season: str
    team: str
    age_group: str
    player_first: str
    player_last: str
    status: Status
    signing_fee_paid: bool
    mandate_authorised: bool
    subscription_activated: bool
    sms_status: str | None
    follow_ups: int
    kit_required: bool | None
    kit_type: str | None
    kit_size: str | None
    shirt_number: int | None
    photo_file: str | None
    payment_day: int | None
    fee_pence: int
    monthly_pence: int
    created_at: float
    answers: dict[str, Any]

    def __repr__(self) -> str:
        return describe(self, ("id", "status", "team", "age_group"))


class Wanted(Struct, frozen=True):
    """Which registrations a list shows; None leaves it open.

    Args:
        season: of this season.
        status: in this status.
        missing: without the payment, or without the photo.
        after: after the registration with this id, for the next page.
    """

    season: str
    status: Status | None = None
    missing: Literal["payment", "photo"] | None = None
    after: str | None = None


_MISSING: Final = {
    None: "1 = 1",
    "payment": "(signing_fee_paid = 0 OR mandate_authorised = 0)",
    "photo": "photo_file IS NULL",
}


def count_by_status(tx: Transaction, season: str) -> dict[str, int]:
    """Return how many registrations of a season are in each status."""
    rows = tx.execute(
        "SELECT status, COUNT(*) AS number FROM registrations WHERE season = ? GROUP BY status",
        season,
    )
    counts = dict.fromkeys(("incomplete", "pending_payment", "active", "suspended"), 0)
    return counts | {row["status"]: row["number"] for row in rows}


def list_registrations(tx: Transaction, wanted: Wanted, limit: int = PAGE) -> list[Listed]:
    """Return a page of registrations, oldest first."""
    conditions, values = [_MISSING[wanted.missing], "season = ?"], [wanted.season]
    if wanted.status is not None:
        conditions.append("status = ?")
        values.append(wanted.status)
    if wanted.after is not None:
        conditions.append(
            "(created_at, id) > (SELECT created_at, id FROM registrations WHERE id = ?)"
        )
        values.append(wanted.after)
    statement = (
        f"SELECT * FROM registrations WHERE {' AND '.join(conditions)}"  # noqa: S608 -- conditions of this module
        " ORDER BY created_at, id LIMIT ?"
    )
    return [read_row(row, Listed) for row in tx.execute(statement, *values, limit)]


def export_csv(tx: Transaction, season: str) -> str:
    """Return the registrations of a season as CSV for a spreadsheet.

    A cell that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    rows: list[list[object]] = [list(_COLUMNS)]
    after: str | None = None
    while page := list_registrations(tx, Wanted(season, after=after)):
        rows += [_read_cells(one) for one in page]
        after = page[-1].id
    return write_csv(rows)


def write_csv(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV: each cell quoted, formulas defused, lines ended as RFC 4180 says."""
    return "".join(",".join(_write_cell(cell) for cell in row) + "\r\n" for row in rows)


def _write_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return '"Y"' if value else '"N"'
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if text.lstrip(" ").startswith(_FORMULA):
        text = f"'{text}"
    quoted = text.replace('"', '""')
    return f'"{quoted}"'


_COLUMNS: Final = (
    *("player_first", "player_last", "born", "gender", "team", "age_group", "season", "type"),
    *("status", "signing_fee_paid", "mandate_authorised", "subscription_activated", "follow_ups"),
    *("payment_day", "signing_fee", "monthly_fee", "kit_required", "kit_type", "kit_size"),
    *("shirt_number", "photo", "medical", "medical_detail", "parent_name", "relationship"),
    *("parent_phone", "parent_email", "consent", "address", "child_address", "child_phone"),
    *("child_email", "played_last_season", "previous_team"),
)


def _read_cells(one: Listed) -> list[object]:
    answers = one.answers
    medical = _part(answers, "medical")
    return [
        *(one.player_first, one.player_last, answers.get("child_born"), answers.get("gender")),
        *(one.team, one.age_group, one.season, one.type, one.status, one.signing_fee_paid),
        *(one.mandate_authorised, one.subscription_activated, one.follow_ups, one.payment_day),
        *(_pounds(one.fee_pence), _pounds(one.monthly_pence), one.kit_required, one.kit_type),
        *(one.kit_size, one.shirt_number, one.photo_file is not None),
        *(", ".join(map(str, medical.get("issues") or ())), medical.get("detail")),
        *(_name(answers, "parent_name"), answers.get("relationship"), answers.get("parent_phone")),
        *(answers.get("parent_email"), answers.get("consent")),
        *(
            _part(answers, "parent_address").get("full"),
            _part(answers, "child_address").get("full"),
        ),
        *(answers.get("child_phone"), answers.get("child_email")),
        *(answers.get("played_last_season"), answers.get("previous_team")),
    ]


def _part(answers: dict[str, Any], name: str) -> dict[str, Any]:
    part = answers.get(name)
    return part if isinstance(part, dict) else {}


def _name(answers: dict[str, Any], field: str) -> str:
    name = _part(answers, field)
    return " ".join(str(name[part]) for part in ("first", "last") if name.get(part))


def _pounds(pence: int) -> str:
    return f"{pence // 100}.{pence % 100:02}"
