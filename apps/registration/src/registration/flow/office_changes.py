"""Corrections by the office: a field of a registration, by the validators of the conversation.

A correction is written into the record and into the conversation in one transaction, with a note
of who did it and when. The note names the field and never a value. This module must never accept a
value that a validator refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from registration.club.answers.checked import Asked
from registration.club.codes import RegistrationCode
from registration.club.corrections import save_answer
from registration.club.kit import name_kit_type
from registration.club.progress import Progress
from registration.club.redaction import Redacted
from registration.club.steps import STEP_OF, STEPS
from registration.flow.conversations import read_conversation
from registration.store import Transaction
from registration.store.registrations import (
    Registration,
    correct_player,
    load_registration,
    update_registration,
)
from registration.store.sessions import load_session, save_progress
from registration.store.tasks import NewTask, has_task, record_act
from registration.store.teams import Squad, reserve_shirt

CORRECTABLE: Final = (
    *("child_name", "child_born", "gender", "medical", "played_last_season"),
    *("parent_name", "relationship", "parent_phone", "parent_email", "consent", "parent_born"),
    *("parent_address", "same_address", "child_address", "child_phone", "child_email"),
    *("payment_day", "kit_size", "shirt_number"),
)
"""The fields that the office may correct, in the order of the page."""

_GONE: Final = "This registration was deleted meanwhile."
_TAKEN: Final = "Another player has this shirt number."
_ANOTHER: Final = "There is a registration of this player already. Look at it first."
_PAID: Final = "The monthly payment is set up with this day. Change it at the payment provider."


class NewCorrection(Redacted, frozen=True):
    """A correction that a person in the office asks for.

    Args:
        registration: the id of the registration.
        field: which field.
        text: its new value, in the person's words.
        by: the name of the person.
        request: an id of the form, so that one that is sent twice is performed once.
    """

    registration: str
    field: str
    text: str
    by: str
    request: str


class Corrected(Struct, frozen=True):
    """The outcome of a correction.

    Args:
        state: whether it was saved, or refused.
        message: why it was refused; a sentence for the office.
    """

    state: Literal["saved", "refused"]
    message: str = ""


def correct_field(tx: Transaction, new: NewCorrection, today: date, now: float) -> Corrected:
    """Correct a field of a registration.

    Args:
        tx: the transaction.
        new: the correction.
        today: the date at the club.
        now: the time, in seconds since 1970.

    Raises:
        LookupError: the office may not correct this field.
    """
    if new.field not in CORRECTABLE:
        raise LookupError("there is no such field to correct")
    found = load_registration(tx, new.registration)
    if found is None:
        return Corrected("refused", _GONE)
    if found.session_id is not None:
        tx.lock_row("sessions", "id", found.session_id)
    tx.lock_row("registrations", "id", found.id)
    current = load_registration(tx, new.registration)
    if current is None:
        return Corrected("refused", _GONE)
    step = STEPS[STEP_OF[new.field]]
    assert step.check is not None  # noqa: S101  # REASON: every field that can be corrected has one
    asked = Asked(today, current.age_group, current.answers, current.season)
    checked = step.check(new.text, asked)
    if not checked.valid:
        return Corrected("refused", checked.message)
    key = f"registration/{current.id}/corrected/{new.request}"
    if has_task(tx, key):
        return Corrected("saved")
    answers = _change_answers(current, new.field, checked.value)
    refusal = _write_record(tx, current, new.field, answers, now)
    if refusal:
        return Corrected("refused", refusal)
    note = f"{new.by} corrected {new.field}"
    record_act(tx, NewTask(key, "corrected", note, current.id), now)
    _write_conversation(tx, current.session_id, new.field, checked.value, now)
    return Corrected("saved")


def _change_answers(current: Registration, field: str, value: object) -> dict[str, object]:
    code = RegistrationCode(
        cast("Literal['100', '200']", current.type),
        current.team,
        current.age_group,
        current.season,
    )
    progress = Progress(code, STEP_OF[field], current.answers)
    return _save_value(progress, field, value)


def _save_value(progress: Progress, field: str, value: object) -> dict[str, object]:
    """Return the answers with a new value; the answers about medicines stay."""
    answers = save_answer(replace(progress, step=STEP_OF[field], further=None), value)
    before, after = progress.answers.get("medical"), answers.get("medical")
    if field == "medical" and isinstance(before, Mapping) and isinstance(after, Mapping):
        answers["medical"] = {**before, **after} if after.get("has") else dict(after)
    return answers


def _write_record(
    tx: Transaction, current: Registration, field: str, answers: Mapping[str, object], now: float
) -> str:
    """Write the record; return why that is not possible, or ""."""
    if field in ("child_name", "child_born"):
        name = cast("Mapping[str, str]", answers["child_name"])
        born = cast("str", answers["child_born"])
        first, last = name["first"], name["last"]
        done = correct_player(tx, current.id, first=first, last=last, born=born, now=now)
        return "" if done else _ANOTHER
    columns: dict[str, object] = {}
    if field == "payment_day":
        if current.subscription is not None:
            return _PAID
        columns["payment_day"] = answers["payment_day"]
    if field == "kit_size":
        columns["kit_size"] = answers["kit_size"]
    if field == "shirt_number":
        number = cast("int", answers["shirt_number"])
        squad = Squad(current.season, current.team, current.age_group)
        if not reserve_shirt(tx, squad, number, current.id, now):
            return _TAKEN
        columns["kit_type"] = name_kit_type(number)
    update_registration(tx, current.id, now, answers=dict(answers), **columns)
    return ""


def _write_conversation(
    tx: Transaction, session: str | None, field: str, value: object, now: float
) -> None:
    """Correct the conversation as well: later changes of the parent are written from there."""
    if session is None:
        return
    saved, conversation = load_session(tx, session), read_conversation(tx, session)
    if saved is None or conversation.progress is None:
        return
    progress = conversation.progress
    answers = _save_value(progress, field, value)
    after = replace(conversation, progress=replace(progress, answers=answers))
    save_progress(tx, session, msgspec.json.encode(after).decode(), saved.version, now)
