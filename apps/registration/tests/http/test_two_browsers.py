"""Two browsers in one session: an answer counts for the question that its parent has seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import HeldAnswer, Served, serve_club

_AGAIN = "Your last message was for an earlier question"


async def show(club: Served) -> dict[str, object]:
    shown: dict[str, object] = (await club.call("GET", f"/sessions/{club.session}")).json
    return shown


@pytest.mark.slow  # starts a program or a server
async def test_an_answer_to_another_question_is_not_used(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_HOUSE)
        seen = (await show(club))["turn"]  # by both
        first = await club.say("12", answers_turn=seen, message_id="first")
        asked = first.json
        assert asked["turn"] != seen
        stale = await club.say("yes", answers_turn=seen, message_id="second")
        assert stale.status == 200
        assert stale.json["response"].startswith(_AGAIN)
        assert "12 Mill Lane" in stale.json["response"]  # the open question
        assert stale.json["routine_number"] == asked["routine_number"]
        assert stale.json["turn"] == asked["turn"]
        again = await club.say("yes", answers_turn=seen, message_id="second")
        assert again.json == stale.json
        taken = await club.say("yes", answers_turn=stale.json["turn"], message_id="third")
        assert taken.json["routine_number"] > asked["routine_number"]
        metrics = (await club.call("GET", "/metrics")).json
        assert "registration_messages_superseded_total 1" in metrics


@pytest.mark.slow  # starts a program or a server
async def test_an_answer_that_waits_for_the_other_browsers_turn_is_not_used(tmp_path: Path) -> None:
    held = HeldAnswer()
    async with serve_club(tmp_path, provider_faults={"addresses": held}) as club:
        await club.say_all(*TO_HOUSE)
        seen = (await show(club))["turn"]
        first = asyncio.create_task(club.say("12", answers_turn=seen, message_id="first"))
        await held.has_come.wait()  # its turn has begun, and the question is still the same
        second = asyncio.create_task(club.say("yes", answers_turn=seen, message_id="second"))
        await asyncio.sleep(0.1)  # it waits
        held.may_go.set()
        asked, stale = (await first).json, await second
        assert stale.json["response"].startswith(_AGAIN)
        assert stale.json["routine_number"] == asked["routine_number"]


async def test_a_code_and_a_client_that_names_no_turn_are_answered(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say(TO_HOUSE[0], answers_turn=99)
        assert (await club.say("Sarah Jones")).json["routine_number"] == 2
        assert (await club.say("Sarah Jones", answers_turn=-7)).json["routine_number"] == 2
