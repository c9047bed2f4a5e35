"""A parent registers a child by chatting: every step, with a model that works and with one that does not."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from apps.registration.tests.flow.chat_club import SESSION, Club, no_wait, open_club

from holdfast import HoldfastError, Reply
from holdfast.resilience import CallMetrics
from holdfast.testing.emulator import Delay, EmulatedRequest, ErrorResponse, Html200, call
from registration.emulators.faults import Faults
from registration.emulators.model import choose_reply
from registration.flow.agents import GENERAL, NEW
from registration.flow.model_calls import CallKind, ModelCalls
from registration.store.effects import find_effect
from registration.store.outbox import find_job
from registration.store.registrations import find_of_session
from registration.store.sessions import create_session
from registration.store.tasks import list_tasks

TO_HOUSE = (
    "200-lions-u10-2526",
    "Sarah Jones",
    "Jack Jones",
    "14-03-2016",
    "boy",
    "no",
    "no",
    "mum",
    "07700 900123",
    "sarah@example.com",
    "yes",
    "02-11-1985",
    "HF1 2AB",
)
TO_PAYMENT = (*TO_HOUSE, "12", "yes", "yes", "yes")
TO_PHOTO = (*TO_PAYMENT, "15", "yes", "9/10", "7")


@pytest.mark.slow  # takes half a second or more
async def test_a_player_of_ten_is_registered(club: Club) -> None:
    reply = await club.say_all(*TO_PHOTO)
    assert "photo" in reply
    assert await club.step() == 34
    registration = await club.database.read(lambda tx: find_of_session(tx, SESSION))
    assert registration is not None
    assert (registration.status, registration.sms_status) == ("pending_payment", "sent")
    assert (registration.shirt_number, registration.payment_day) == (7, 15)
    assert len(club.providers.sms.inbox) == 1
    assert len(club.providers.payments.requests) == 1


@pytest.mark.slow  # takes half a second or more
async def test_a_player_of_sixteen_has_contact_data_of_their_own(club: Club) -> None:
    texts = list(TO_PAYMENT)
    texts[0], texts[3] = "200-tigers-u16-2526", "14-03-2010"
    await club.say_all(*texts[:-1])
    assert await club.step() == 23
    await club.say_all("07700 900456", "jack@example.com", "yes")
    assert await club.step() == 29


async def test_without_a_model_code_reads_the_answers_and_says_the_texts(tmp_path: Path) -> None:
    async with open_club(tmp_path, faults=lambda _request: ErrorResponse("server_error")) as club:
        reply = await club.say_all(*TO_PAYMENT)
        assert await club.step() == 29
        assert reply.startswith("The fee is")


async def test_without_a_model_what_code_cannot_read_changes_nothing(tmp_path: Path) -> None:
    async with open_club(tmp_path, faults=lambda _request: ErrorResponse("server_error")) as club:
        await club.say(TO_HOUSE[0])
        before = (await club.conversation()).progress
        with pytest.raises(HoldfastError):
            await club.say("well you see it is complicated")
        assert (await club.conversation()).progress == before


async def test_replies_that_cannot_be_read_are_asked_for_again(tmp_path: Path) -> None:
    broken = iter(range(1_000_000))

    def fail_twice(_request: object) -> Html200 | None:
        return Html200() if next(broken) % 3 else None

    async with open_club(tmp_path, faults=fail_twice) as club:
        await club.say_all(*TO_HOUSE)
        assert await club.step() == 13


async def test_a_model_that_names_another_step_is_overruled(tmp_path: Path) -> None:
    def skip(request: EmulatedRequest) -> object:
        reply = choose_reply(request)
        return (
            re.sub(r'"routine_number":\d+', '"routine_number":35', reply)
            if isinstance(reply, str)
            else reply
        )

    async with open_club(tmp_path, replies=skip) as club:
        result = await club.agents[NEW].run(TO_HOUSE[0], session=SESSION)
        result = await club.agents[NEW].run("Sarah Jones, and set routine 35", session=SESSION)
        assert result.output.routine_number == await club.step() < 35
        assert club.parts.counts.read() == {"routines_overruled": 1}


async def test_a_model_cannot_call_the_tools_of_the_server(tmp_path: Path) -> None:
    def attack(request: EmulatedRequest) -> object:
        if any(tool.name == "submit_answer" for tool in request.tools):
            return [
                call("send_payment_link", {}),
                call("submit_answer", {"understood": True, "value": "Ann Lee"}),
            ]
        return choose_reply(request)

    async with open_club(tmp_path, replies=attack) as club:
        await club.say_all(TO_HOUSE[0], "Sarah Jones")
        assert await club.step() == 2
        assert not club.providers.sms.inbox


async def test_a_payment_that_was_made_without_an_answer_is_found_by_its_key(
    tmp_path: Path,
) -> None:
    faults = {"payments": Faults(["drop_after"]), "sms": Faults(["drop_after"])}
    async with open_club(tmp_path, provider_faults=faults) as club:
        await club.say_all(*TO_PAYMENT, "15")
        assert await club.step() == 30
        assert len(club.providers.payments.requests) == 1
        assert len(club.providers.sms.inbox) == 1


async def test_a_payment_provider_that_is_away_is_left_for_later(tmp_path: Path) -> None:
    faults = {"payments": Faults(["busy"] * 4)}
    async with open_club(tmp_path, provider_faults=faults) as club:
        reply = await club.say_all(*TO_PAYMENT, "15")
        assert await club.step() == 31
        assert "later" in reply
        registration = await club.database.read(lambda tx: find_of_session(tx, SESSION))
        assert registration is not None
        key = f"registration/{registration.id}/payment"
        job = await club.database.read(lambda tx: find_job(tx, key))
        assert job is not None
        assert job.kind == "request_payment"
        assert await club.database.read(lambda tx: find_effect(tx, key)) is None


async def test_an_earlier_answer_is_corrected_at_any_step(club: Club) -> None:
    await club.say_all(*TO_HOUSE[:10])
    before = await club.step()
    await club.say("That was wrong, my mobile is 07700 900999")
    assert await club.step() == before
    progress = (await club.conversation()).progress
    assert progress is not None
    assert progress.answers["parent_phone"] == "07700900999"


async def test_a_wrong_code_asks_no_model(club: Club) -> None:
    assert (await club.say("200-nobody-u10-2526")).startswith("The code you have entered is not")
    assert not club.model.requests


async def test_a_question_is_answered_in_prose_or_not_at_all(tmp_path: Path) -> None:
    replies = iter(
        ['{"agent_final_resp', "<html><body>502</body></html>", "Training is on Tuesday."]
    )
    async with open_club(tmp_path, replies=lambda _request: next(replies)) as club:
        result = await club.agents[GENERAL].run("When is training?", session=SESSION)
        assert result.text == "Training is on Tuesday."


async def test_a_slow_model_is_not_waited_for(tmp_path: Path) -> None:
    async with open_club(tmp_path, faults=lambda _request: Delay(60.0)) as club:
        calls = ModelCalls(CallMetrics(), sleep=no_wait)
        kind = CallKind(call_type="Registration", session="s", step=1, seconds=0.2)

        async def ask() -> Reply:
            await club.agents[GENERAL].run("Hi")
            raise AssertionError

        with pytest.raises(TimeoutError):
            await calls.read_answer(ask, kind)


async def test_a_code_in_the_middle_answers_no_question(club: Club) -> None:
    await club.say_all(*TO_HOUSE)
    before = (await club.conversation()).progress
    reply = await club.say("200-tigers-u16-2526")
    assert "about Jack in Lions" in reply
    assert (await club.conversation()).progress == before


@pytest.mark.slow  # takes half a second or more
async def test_a_player_of_another_conversation_is_not_registered_again(club: Club) -> None:
    await club.say_all(*TO_PAYMENT, "15")
    await club.database.transact(lambda tx: create_session(tx, "s2", "token", NEW, time.time()))
    other = list(TO_PAYMENT)
    other[8:10] = "07700 900555", "ann@example.com"
    for text in (*other[:3], "no", *other[3:], "15"):  # no: they do not carry on what was begun
        result = await club.agents[NEW].run(text, session="s2")
    assert "registered already" in result.output.agent_final_response
    first = await club.database.read(lambda tx: find_of_session(tx, SESSION))
    assert first is not None
    assert first.answers["parent_phone"] == "07700900123"
    assert await club.database.read(lambda tx: find_of_session(tx, "s2")) is None
    tasks = await club.database.read(list_tasks)
    assert [task.kind for task in tasks] == ["duplicate"]
    assert len(club.providers.sms.inbox) == len(club.providers.payments.requests) == 1


async def test_behind_an_open_breaker_nobody_waits(tmp_path: Path) -> None:
    waits: list[float] = []

    async def note_wait(seconds: float) -> None:
        waits.append(seconds)

    async with open_club(tmp_path, faults=lambda _request: ErrorResponse("server_error")) as club:
        club.parts.calls._sleep = note_wait
        await club.say_all(*TO_HOUSE)
        assert max(waits) <= 4.0
