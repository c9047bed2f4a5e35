"""A conversation is read again and forgotten, and its answers are changed by buttons."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PHOTO
from apps.registration.tests.http.served_club import HeldAnswer, Served, serve_club

from holdfast.testing.emulator import ErrorResponse
from registration.store import open_database
from registration.store.registrations import find_of_session


async def read(club: Served) -> list[tuple[str, str]]:
    shown = await club.call("GET", f"/sessions/{club.session}/messages")
    assert shown.status == 200, shown.json
    return [(line["by"], line["text"]) for line in shown.json["messages"]]


def find_words(folder: Path, *words: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and "providers" not in path.parts]
    assert files
    return [
        f"{path.name}: {word}"
        for path in files
        for word in words
        if word.encode() in path.read_bytes()
    ]


async def test_what_was_written_is_shown_again(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        assert await read(club) == []
        first = (await club.say("How do I register?")).json["response"]
        second = (await club.say(TO_HOUSE[0])).json["response"]
        assert await read(club) == [
            ("parent", "How do I register?"),
            ("club", first),
            ("parent", TO_HOUSE[0]),
            ("club", second),
        ]
        club.token = "x" * 22
        other = await club.call("GET", f"/sessions/{club.session}/messages")
        assert other.status == 404


async def test_a_message_that_was_sent_again_is_shown_once(tmp_path: Path) -> None:
    fails = True

    def faults(_request: object) -> ErrorResponse | None:
        return ErrorResponse("invalid_request") if fails else None

    async with serve_club(tmp_path, faults=faults) as club:
        assert (await club.say("How do I register?", message_id="m")).status == 503
        fails = False
        answer = (await club.say("How do I register?", message_id="m")).json["response"]
        assert await read(club) == [("parent", "How do I register?"), ("club", answer)]


@pytest.mark.slow  # starts a program or a server
async def test_a_conversation_is_forgotten_in_every_file(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_HOUSE)
        body = {"session_id": club.session}
        mine, club.token = club.token, "x" * 22
        assert (await club.call("POST", "/clear", body)).status == 404
        club.token = mine
        assert (await club.call("POST", "/clear", body)).status == 204
        assert (await club.call("GET", f"/sessions/{club.session}")).status == 404
        assert (await club.call("POST", "/clear", body)).status == 404
    assert find_words(tmp_path, "Sarah", "900123", "sarah@example", club.session) == []


@pytest.mark.slow  # starts a program or a server
async def test_a_conversation_is_forgotten_while_an_address_is_looked_up(tmp_path: Path) -> None:
    held = HeldAnswer()
    async with serve_club(tmp_path, provider_faults={"addresses": held}) as club:
        await club.say_all(*TO_HOUSE)
        late = asyncio.create_task(club.say("12"))
        await held.has_come.wait()
        cleared = await club.call("POST", "/clear", {"session_id": club.session})
        assert cleared.status == 204
        held.may_go.set()
        assert (await late).status == 503
    assert find_words(tmp_path, "Sarah", "900123", "Mill Lane") == []


@pytest.mark.slow  # starts a program or a server
async def test_the_club_keeps_a_registration_that_got_as_far_as_the_payment(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_PHOTO)
        database = await open_database(f"sqlite:///{tmp_path}/club.db")
        before = await database.read(lambda tx: find_of_session(tx, club.session))
        assert before is not None
        await club.call("POST", "/clear", {"session_id": club.session})
        rows = await database.read(
            lambda tx: tx.execute("SELECT id, session_id, status FROM registrations")
        )
        await database.close()
        kept = {"id": before.id, "session_id": None, "status": "pending_payment"}
        assert kept in rows


@pytest.mark.slow  # starts a program or a server
async def test_a_button_changes_an_answer_without_a_model(tmp_path: Path) -> None:
    fails = False

    def faults(_request: object) -> ErrorResponse | None:
        return ErrorResponse("invalid_request") if fails else None

    async with serve_club(tmp_path, faults=faults) as club:
        await club.say_all(*TO_HOUSE[:10])
        fails = True
        shown = (await club.call("GET", f"/sessions/{club.session}")).json
        words = shown["to_change"]
        reply = await club.say(words + "Your mobile number")
        assert (reply.status, reply.json["routine_number"]) == (200, 8)
        assert (await club.call("GET", f"/sessions/{club.session}")).json["correcting"]
        assert (await club.say("Never mind")).json["routine_number"] == 10
        await club.say(words + "Your mobile number", message_id="again")
        assert (await club.say("07700 900999")).json["routine_number"] == 10
        shown = (await club.call("GET", f"/sessions/{club.session}")).json
        assert not shown["correcting"]
        assert {
            "label": "Your mobile number",
            "value": "07700900999",
            "field": "parent_phone",
        } in shown["saved"]


@pytest.mark.slow  # starts a program or a server
async def test_what_cannot_change_any_more_is_marked(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_PHOTO)
        shown = (await club.call("GET", f"/sessions/{club.session}")).json
        fixed = {row["field"] for row in shown["saved"] if row.get("fixed")}
        assert {"payment_day", "child_born"} <= fixed
        assert "parent_phone" not in fixed
