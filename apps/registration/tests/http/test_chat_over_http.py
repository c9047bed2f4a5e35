"""Conversations over HTTP: who may, what is answered once, what is refused, and what a page hears."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PHOTO
from apps.registration.tests.http.served_club import serve_club

from holdfast.testing.emulator import Delay, EmulatedRequest, ErrorResponse
from registration.emulators.faults import Faults
from registration.http.running import Time
from registration.store.messages import NewMessage, save_message


@pytest.mark.slow  # starts a program or a server
async def test_a_registration_goes_to_its_photo(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        reply = await club.say_all(*TO_PHOTO)
        assert (reply.status, reply.json["routine_number"]) == (200, 34)
        assert (reply.json["status"], reply.json["last_agent"]) == ("ok", "new_registration")
        shown = (await club.call("GET", f"/sessions/{club.session}")).json
        assert shown["of"] == 35
        name = {"label": "Your name", "value": "Sarah Jones", "field": "parent_name"}
        assert {**name, "fixed": True} in shown["saved"]


@pytest.mark.slow  # starts a program or a server
async def test_a_message_that_is_sent_twice_is_answered_once(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say(TO_HOUSE[0])
        first, second = await asyncio.gather(
            club.say("Sarah Jones", message_id="m1"), club.say("Sarah Jones", message_id="m1")
        )
        assert first.json == second.json == (await club.say("Sarah Jones", message_id="m1")).json
        assert first.json["routine_number"] == 2
        refused = await club.say("Another text", message_id="m1")
        assert (refused.status, refused.json["error"]["kind"]) == (422, "invalid")
    async with serve_club(tmp_path) as again:
        again.session, again.token = club.session, club.token
        assert (await again.say("Sarah Jones", message_id="m1")).json == first.json


async def test_the_same_words_without_an_id_are_one_message_for_a_minute(tmp_path: Path) -> None:
    now = [1_790_000_000.0]
    async with serve_club(tmp_path, clock=Time(now=lambda: now[0])) as club:
        first = await club.say("200-nobody-u10-2526")
        asked = await club.database.read(lambda tx: tx.execute("SELECT turn FROM messages"))
        assert (await club.say("200-nobody-u10-2526")).json == first.json
        assert await club.database.read(lambda tx: tx.execute("SELECT turn FROM messages")) == asked
        now[0] += 61.0
        await club.say("200-nobody-u10-2526")
        later = await club.database.read(lambda tx: tx.execute("SELECT turn FROM messages"))
        assert (len(asked), len(later)) == (1, 2)


async def test_the_client_does_not_choose_the_step(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say(TO_HOUSE[0], routine_number=34)
        reply = await club.say("Sarah Jones", routine_number=34, last_agent="universal")
        assert reply.json["routine_number"] == 2


async def test_a_session_belongs_to_its_token(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        mine, token = club.session, club.token
        await club.begin()
        club.token, other = token, club.session
        body = {"user_message": "Hi", "session_id": other}
        assert (await club.call("POST", "/chat", body)).status == 404
        club.session = mine
        sent = await club.call(
            "POST", "/chat", {"user_message": "Hi", "session_id": mine}, Prefer="respond-async"
        )
        events = f"/events/{sent.json['turn']}"
        assert (await club.call("GET", events)).status == 200
        await club.begin()
        assert (await club.call("GET", events)).status == 404
        club.token = ""
        assert (await club.call("GET", f"/sessions/{mine}")).status == 401


async def test_without_a_model_a_question_gets_503_and_nothing_is_lost(tmp_path: Path) -> None:
    fails = True

    def faults(_request: object) -> ErrorResponse | None:
        return ErrorResponse("invalid_request") if fails else None

    async with serve_club(tmp_path, faults=faults) as club:
        reply = await club.say("How do I register?", message_id="q1")
        assert reply.status == 503
        assert reply.json["error"]["retryable"]
        assert "Retry-After" in reply.headers
        fails = False
        again = await club.say("How do I register?", message_id="q1")
        assert (again.status, again.json["last_agent"]) == (200, "universal")
        assert again.json["response"]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("fails_at", ["reading", "wording"])
async def test_an_answer_says_that_a_model_was_away(tmp_path: Path, fails_at: str) -> None:
    fails = True

    def faults(request: EmulatedRequest) -> ErrorResponse | None:
        is_hit = bool(request.tools) == (fails_at == "reading")
        return ErrorResponse("invalid_request") if fails and is_hit else None

    async with serve_club(tmp_path, faults=faults) as club:
        assert (await club.say(TO_HOUSE[0])).json["status"] == "ok"  # it needs no model
        reply = await club.say("Sarah Jones")
        assert (reply.json["status"], reply.json["routine_number"]) == ("degraded", 2)
        fails = False
        assert (await club.say("Jack Jones")).json["status"] == "ok"


@pytest.mark.slow  # starts a program or a server
async def test_a_model_that_hangs_holds_no_parent_up(tmp_path: Path) -> None:
    async with serve_club(tmp_path, faults=lambda _: Delay(60.0), turn_seconds="2") as club:
        await club.say(TO_HOUSE[0])
        reply = await club.say("Sarah Jones")
        assert (reply.status, reply.json["status"]) == (200, "degraded")


@pytest.mark.slow  # starts a program or a server
async def test_a_page_hears_what_is_done_and_the_answer(tmp_path: Path) -> None:
    slow = {"addresses": Faults(["late"], late=0.5)}
    async with serve_club(tmp_path, provider_faults=slow) as club:
        await club.say_all(*TO_HOUSE)
        sent = await club.call(
            "POST",
            "/chat",
            {"user_message": "12", "session_id": club.session},
            Prefer="respond-async",
        )
        assert sent.status == 202
        told = await club.call("GET", f"/events/{sent.json['turn']}")
        assert "I am looking up your address" in told.json
        assert (
            told.json.rstrip()
            .rpartition("data: ")[2]
            .startswith('{"response":"I have 12 Mill Lane')
        )
        last = told.json.rstrip().rpartition("id: ")[2].splitlines()[0]
        rest = await club.call("GET", f"/events/{sent.json['turn']}", Last_Event_ID=last)
        assert rest.json.count("event: ") == 1


@pytest.mark.slow  # starts a program or a server
async def test_a_message_is_answered_by_a_stream(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_HOUSE)
        message = {"user_message": "12", "session_id": club.session, "message_id": "m1"}
        told = await club.call("POST", "/chat/stream", message)
        assert (told.status, told.headers["Content-Type"].partition(";")[0]) == (
            200,
            "text/event-stream",
        )
        events = [line for line in told.json.splitlines() if line.startswith("event: ")]
        assert events[-1] == "event: answer"
        assert "event: status" in events
        assert "I have 12 Mill Lane" in told.json
        first = told.json.partition("id: ")[2].splitlines()[0]
        rest = await club.call("GET", told.headers["Content-Location"], Last_Event_ID=first)
        assert rest.json.rpartition("data: ")[2] == told.json.rpartition("data: ")[2]
        again = await club.call("POST", "/chat/stream", message)
        assert again.json.count("event: ") == 1
        assert again.json.partition("data: ")[2] == told.json.rpartition("data: ")[2]
        question = {"user_message": "Hello?", "session_id": club.session}
        in_an_address = await club.call("GET", f"/chat/stream?session_id={club.session}")
        assert in_an_address.status == 405
        club.token = "x" * 22
        assert (await club.call("POST", "/chat/stream", question)).status == 404


async def test_a_stream_of_a_model_that_is_down_ends_with_an_error(tmp_path: Path) -> None:
    async with serve_club(tmp_path, faults=lambda _: ErrorResponse("invalid_request")) as club:
        message = {"user_message": "How do I register?", "session_id": club.session}
        told = await club.call("POST", "/chat/stream", message)
        assert (told.status, told.json.count("event: error")) == (200, 1)
        assert "Nothing is lost" in told.json


async def test_a_message_whose_turn_never_began_is_sent_again(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        new = NewMessage(club.session, "m1", "turn1", "200-nobody-u10-2526")
        await club.database.transact(lambda tx: save_message(tx, new, 0.0))
        told = await club.call("GET", "/events/turn1")
        assert (told.status, told.json["error"]["retryable"]) == (503, True)
        assert (await club.say(new.text, message_id="m1")).status == 200
        assert "event: answer" in (await club.call("GET", "/events/turn1")).json


async def test_a_fast_client_is_told_to_wait(tmp_path: Path) -> None:
    async with serve_club(tmp_path, requests_per_window="2") as club:
        await club.say_all("200-nobody-u10-2526", "200-nobody-u11-2526")
        reply = await club.say("Hello")
        assert (reply.status, reply.json["error"]["kind"]) == (429, "too_many_requests")


async def test_a_body_that_is_none_is_refused_by_its_field(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        missing = await club.call("POST", "/chat", {"session_id": club.session})
        assert (missing.status, missing.json["error"]["kind"]) == (422, "invalid")
        assert "user_message" in missing.json["error"]["message"]
        long = await club.say("x" * 4001)
        assert long.status == 413
        assert (await club.call("GET", "/nowhere")).json["error"]["kind"] == "not_found"
        assert (
            await club.call(
                "POST", "/chat/continue", {"user_message": "Hi", "session_id": club.session}
            )
        ).status == 409


async def test_a_message_without_words_is_refused(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        assert (await club.say(" \n ")).status == 422
