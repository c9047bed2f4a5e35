"""The office: who may enter, what is shown, what may be changed, and by whom it was."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from apps.registration.tests.http.office_visit import Office
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.store.samples import NOON, player, register

from registration.store.outbox import (
    NewJob,
    claim_job,
    enqueue,
    find_job,
    list_jobs,
    record_failure,
)
from registration.store.registrations import load_registration, update_registration
from registration.store.tasks import NewTask, list_tasks, list_tasks_of, open_task
from registration.store.teams import Squad, reserve_shirt


@pytest.fixture
async def club(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve_club(tmp_path) as served:
        yield served


@pytest.fixture
async def office(club: Served) -> AsyncIterator[Office]:
    # Addresses of loopback have no names, and cookies of them need this jar.
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        yield Office(http, club.address)


async def test_nothing_is_shown_without_the_admin_key(office: Office) -> None:
    for path in ("", "/registrations", "/registrations/x", "/tasks", "/export.csv"):
        page = await office.open(f"/office{path}", follow=False)
        assert (page.status, page.headers["Location"]) == (303, "/office/sign-in")
        assert not page.text
    wrong = await office.sign_in("b" * 32)
    assert (wrong.status, "This is not the admin key." in wrong.text) == (401, True)
    assert (await office.open("/office", follow=False)).status == 303
    page = await office.sign_in()
    assert "Registrations of season 2526" in page.text
    assert "script" not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    (cookie,) = office.http.cookie_jar
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/office")


async def test_a_cookie_that_was_changed_or_is_old_opens_nothing(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.sign_in()
    (cookie,) = office.http.cookie_jar
    payload, _, signature = cookie.value.partition(".")
    for value in (f"{payload[:-4]}AAAA.{signature}", payload, f".{signature}", "%%.%%"):
        headers = {"Cookie": f"registration_office={value}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            assert (await Office(http, office.address).open("/office", follow=False)).status == 303
    monkeypatch.setattr("registration.http.office.access.SIGN_IN_SECONDS", 0)
    await office.sign_in()
    assert (await office.open("/office", follow=False)).status == 303


@pytest.mark.slow  # starts a program or a server
async def test_a_key_cannot_be_guessed_quickly(tmp_path: Path) -> None:
    async with (
        serve_club(tmp_path, sessions_per_window="3") as club,
        aiohttp.ClientSession() as http,
    ):
        office = Office(http, club.address)
        statuses = [(await office.sign_in("c" * 32)).status for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]


@pytest.mark.slow  # starts a program or a server
async def test_registrations_are_listed_and_found(club: Served, office: Office) -> None:
    owner = await register(club.database)
    await register(club.database, "s2", player("<b>Bobby</b>"), NOON + 1)
    await office.sign_in()
    assert "Waiting for payment: 2" in (await office.open("/office")).text
    for query in ("status=pending_payment", "missing=payment", "missing=photo"):
        page = await office.open(f"/office/registrations?{query}")
        assert "Zebedee Quackenbush" in page.text
        assert "&lt;b&gt;Bobby&lt;/b&gt;" in page.text
        assert "<b>" not in page.text
    assert "There is none." in (await office.open("/office/registrations?status=active")).text
    assert (await office.open("/office/registrations?status=odd")).status == 404
    assert (await office.open("/office/registrations/unknown")).status == 404
    page = await office.open(f"/office/registrations/{owner}")
    assert "EpiPen in the bag" in page.text
    assert "Parent&#x27;s mobile number" in page.text
    assert "Your " not in page.text
    rows = list(csv.reader(io.StringIO((await office.open("/office/export.csv")).text)))
    assert len(rows) == 3


async def test_a_field_is_corrected_by_the_rules_of_the_conversation(
    club: Served, office: Office
) -> None:
    owner = await register(club.database)
    await office.sign_in()
    address = f"/office/registrations/{owner}"
    form = (await office.open(address)).form(f"{address}/correct", field="parent_phone")
    refused = await office.send(form, value="12")
    assert (refused.status, 'role="alert"' in refused.text) == (422, True)
    assert (await office.send(form, value="07700\0900999")).status == 400
    saved = await office.send(form, value="07700 900 999")
    assert "07700900999" in saved.text
    assert "Anna corrected parent_phone" in saved.text
    await office.send(form, value="07700 900 111")  # the form was sent twice
    found = await club.database.read(lambda tx: load_registration(tx, owner))
    assert found is not None
    assert found.answers["parent_phone"] == "07700900999"
    (act,) = await club.database.read(lambda tx: list_tasks_of(tx, owner))
    assert (act.kind, act.state) == ("corrected", "done")
    assert "0770" not in act.reason


async def test_names_and_numbers_stay_unique(club: Served, office: Office) -> None:
    owner = await register(club.database)
    other = await register(club.database, "s2", player("Dougal"), NOON + 1)
    squad = Squad("2526", "Lions", "u10s")
    await club.database.transact(lambda tx: reserve_shirt(tx, squad, 7, other, NOON))
    born = {"child_born": "03-04-2015", "child_name": {"first": "Zebedee", "last": "Quackenbush"}}
    await club.database.transact(lambda tx: update_registration(tx, owner, NOON, answers=born))
    await office.sign_in()
    address = f"/office/registrations/{owner}"
    page = await office.open(address)
    name = page.form(f"{address}/correct", field="child_name")
    assert (await office.send(name, value="Dougal Quackenbush")).status == 422
    assert (
        "Florence Quackenbush</h1>" in (await office.send(name, value="Florence Quackenbush")).text
    )
    shirt = page.form(f"{address}/correct", field="shirt_number")
    assert (await office.send(shirt, value="7")).status == 422
    assert "<dd>9</dd>" in (await office.send(shirt, value="9")).text


@pytest.mark.slow  # starts a program or a server
async def test_a_form_without_its_token_changes_nothing(club: Served, office: Office) -> None:
    owner = await register(club.database)
    await office.sign_in()
    address = f"/office/registrations/{owner}"
    page = await office.open(address)
    for path, values in (
        (f"{address}/correct", {"field": "parent_phone"}),
        (f"{address}/resend", {}),
        ("/office/sign-out", {}),
    ):
        form = page.form(path, **values)
        for token in ("", "x" * 64, "é"):
            answer = await office.send(form, token=token, value="07700 900 999")
            assert answer.status == 400
    found = await club.database.read(lambda tx: load_registration(tx, owner))
    assert found is not None
    assert found.answers["parent_phone"] == "07700900123"
    assert await club.database.read(lambda tx: list_tasks_of(tx, owner)) == []
    await office.send(page.form("/office/sign-out"))
    assert (await office.open("/office", follow=False)).status == 303


async def test_the_link_is_sent_again_once_for_each_form(club: Served, office: Office) -> None:
    owner = await register(club.database)
    await office.sign_in()
    address = f"/office/registrations/{owner}"
    form = (await office.open(address)).form(f"{address}/resend")
    await office.send(form)
    page = await office.send(form)
    assert "Anna sent the payment link again" in page.text
    jobs = await club.database.read(lambda tx: list_jobs(tx, owner))
    assert [job.kind for job in jobs] == ["send_payment_link"]


async def test_tasks_are_finished_and_failed_jobs_tried_again(club: Served, office: Office) -> None:
    database = club.database

    def prepare(tx: object) -> None:
        enqueue(tx, NewJob("k", "odd", {}), NOON)
        job = claim_job(tx, ("odd",), "lease", NOON, NOON + 60)
        record_failure(tx, job, "refused", NOON)
        open_task(tx, NewTask("k/failed", "refused", "It did not happen."), NOON)
        open_task(tx, NewTask("d", "duplicate", "Two are alike."), NOON)

    await database.transact(prepare)
    await office.sign_in()
    page = await office.open("/office/tasks")
    await office.send(page.form("/office/tasks/retry", task="k/failed"))
    again = await office.send(page.form("/office/tasks/retry", task="k/failed"))
    assert again.status == 409
    job = await database.read(lambda tx: find_job(tx, "k"))
    assert (job is not None and job.state) == "queued"
    page = await office.send(page.form("/office/tasks/finish", task="d"))
    assert "None is open." in page.text
    assert await database.read(list_tasks) == []


async def test_the_conversation_is_shown_as_it_was(club: Served, office: Office) -> None:
    owner = await register(club.database, club.session + "x")
    await club.say("200-lions-u10-2526")
    await club.say("Sarah Jones")
    await club.database.transact(
        lambda tx: update_registration(tx, owner, NOON, session_id=club.session)
    )
    await office.sign_in()
    page = await office.open(f"/office/registrations/{owner}")
    assert "Sarah Jones" in page.text.partition("<h2>Conversation</h2>")[2]
    assert "agent_final_response" not in page.text
    kept = [{"by": "parent", "text": "Goodbye"}]
    await club.database.transact(lambda tx: update_registration(tx, owner, NOON, conversation=kept))
    assert "Goodbye" in (await office.open(f"/office/registrations/{owner}")).text


@pytest.mark.slow  # starts a program or a server
async def test_a_correction_reaches_the_conversation(club: Served, office: Office) -> None:
    await club.say("200-lions-u10-2526")
    await club.say("Sarah Jones")
    owner = await register(club.database, "other")
    await club.database.transact(
        lambda tx: update_registration(tx, owner, NOON, session_id=club.session)
    )
    await office.sign_in()
    address = f"/office/registrations/{owner}"
    form = (await office.open(address)).form(f"{address}/correct", field="parent_name")
    await office.send(form, value="Sara Jones")
    shown = (await club.call("GET", f"/sessions/{club.session}")).json
    assert shown["saved"][0]["value"] == "Sara Jones"
    assert (await club.say("Jack Jones")).json["routine_number"] == 3
