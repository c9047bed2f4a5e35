"""What the steps leave behind: the record, the mail to the club, the tasks of the office."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from apps.registration.tests.flow.chat_club import SESSION, Club, open_club
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PAYMENT, TO_PHOTO

from registration.emulators.faults import Faults
from registration.flow.agents import NEW
from registration.store.outbox import list_jobs
from registration.store.registrations import Registration, find_of_session
from registration.store.sessions import create_session
from registration.store.tasks import list_tasks


async def find_record(club: Club, session: str = SESSION) -> Registration:
    found = await club.database.read(lambda tx: find_of_session(tx, session))
    assert found is not None
    return found


@pytest.mark.slow  # takes half a second or more
async def test_a_correction_after_the_payment_is_in_the_record(club: Club) -> None:
    await club.say_all(*TO_PHOTO, "That was wrong, my email is new@example.com")
    assert (await find_record(club)).answers["parent_email"] == "new@example.com"


async def test_the_club_hears_of_a_link_that_did_not_come(club: Club) -> None:
    await club.say_all(*TO_PAYMENT, "15", "no")
    owner = (await find_record(club)).id
    jobs = await club.database.read(lambda tx: list_jobs(tx, owner))
    assert [(job.kind, job.payload) for job in jobs] == [("send_mail", {"template": "no_link"})]


@pytest.mark.slow  # takes half a second or more
async def test_a_brother_pays_the_monthly_fee_of_siblings(club: Club) -> None:
    await club.say_all(*TO_PAYMENT, "15")
    await club.database.transact(lambda tx: create_session(tx, "s2", "token", NEW, time.time()))
    for text in (*TO_PAYMENT[:2], "Tom Jones", *TO_PAYMENT[3:], "15"):
        await club.agents[NEW].run(text, session="s2")
    fees = [(await find_record(club, session)).monthly_pence for session in (SESSION, "s2")]
    settings = club.parts.settings
    assert fees == [settings.monthly_fee, settings.sibling_monthly_fee]


async def test_an_address_is_looked_up_again_when_nobody_answers(tmp_path: Path) -> None:
    async with open_club(tmp_path, provider_faults={"addresses": Faults(["busy"])}) as club:
        assert "12 Mill Lane" in await club.say_all(*TO_HOUSE, "12")


async def test_a_payment_that_is_refused_is_a_task(tmp_path: Path) -> None:
    async with open_club(tmp_path, provider_faults={"payments": Faults(["refuse"])}) as club:
        await club.say_all(*TO_PAYMENT, "15")
        tasks = await club.database.read(list_tasks)
        assert [(task.kind, task.registration_id) for task in tasks] == [
            ("refused", (await find_record(club)).id)
        ]
        assert not club.providers.payments.requests
