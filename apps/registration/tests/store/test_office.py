"""What the office sees, and a CSV that no spreadsheet executes."""

from __future__ import annotations

import csv
import io

import pytest
from apps.registration.tests.store.samples import ANSWERS, NOON, PERSONAL, player, register
from hypothesis import given
from hypothesis import strategies as st

from registration.store import Database
from registration.store.office import (
    Wanted,
    count_by_status,
    export_csv,
    list_registrations,
    write_csv,
)
from registration.store.registrations import update_registration


async def test_registrations_are_counted_and_listed(database: Database) -> None:
    ids = [
        await register(database, f"s{n}", player(f"Child{'abcde'[n]}"), NOON + n) for n in range(5)
    ]
    await database.transact(
        lambda tx: update_registration(tx, ids[0], NOON, status="active", photo_file="p.jpg")
    )
    counts = await database.read(lambda tx: count_by_status(tx, "2526"))
    assert counts == {"incomplete": 0, "pending_payment": 4, "active": 1, "suspended": 0}

    async def listed(wanted: Wanted, limit: int = 100) -> list[str]:
        found = await database.read(lambda tx: list_registrations(tx, wanted, limit))
        assert not [text for text in PERSONAL if text in repr(found)]
        return [one.id for one in found]

    assert await listed(Wanted("2526")) == ids
    assert await listed(Wanted("2526", status="active")) == ids[:1]
    assert await listed(Wanted("2526", missing="photo")) == ids[1:]
    assert await listed(Wanted("2526", missing="payment")) == ids
    assert await listed(Wanted("2425")) == []
    assert await listed(Wanted("2526", after=ids[1]), 2) == ids[2:4]


async def test_the_export_has_every_registration_of_the_season(database: Database) -> None:
    owner = await register(database)
    await register(database, "s2", player("=cmd|' /C calc'!A0"), NOON + 1)
    answers = {**ANSWERS, "previous_team": '@SUM(A1), "x"', "parent_address": {"full": "-1 Street"}}
    await database.transact(lambda tx: update_registration(tx, owner, NOON, answers=answers))
    text = await database.read(lambda tx: export_csv(tx, "2526"))
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["player_first"], first["signing_fee"], first["signing_fee_paid"]) == (
        *("Zebedee", "45.00"),
        "N",
    )
    assert first["previous_team"] == '\'@SUM(A1), "x"'
    assert first["address"] == "'-1 Street"
    assert first["medical"] == "peanut allergy"
    assert second["player_first"] == "'=cmd|' /C calc'!A0"


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "  =", "\uff1d"])
def test_no_cell_begins_like_a_formula(first: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(write_csv([[f"{first}1+1"]]), newline=""))
    assert cell == f"'{first}1+1"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_a_spreadsheet_reads_what_was_written(cells: list[str]) -> None:
    text = write_csv([cells])
    (read,) = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert [cell.removeprefix("'") for cell in read] == [cell.removeprefix("'") for cell in cells]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in read)
