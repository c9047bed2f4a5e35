"""Hard cases over HTTP: one shirt for two, answers that come too late, a database that is away or is restored."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from apps.registration.tests.http.payer import (
    ask_for_payment,
    find_link,
    load,
    open_link,
    press,
    wait_status,
)
from apps.registration.tests.http.prepared import BEFORE_SEASON, prepare_session
from apps.registration.tests.http.served_club import Reply, Served, serve_club
from apps.registration.tests.http.whole_registrations import find_step

from registration.emulators.faults import Fault, Faults
from registration.outbox import reconcile
from registration.providers import PaymentProvider
from registration.settings import read_settings
from registration.store.tasks import list_tasks

KEYS = {"REGISTRATION_ADMIN_KEY": "a" * 32, "REGISTRATION_LINK_SECRET": "b" * 32}


async def go_to_shirt(club: Served, child: str) -> tuple[str, str]:
    club.session, club.token = await prepare_session(club.database, child, 29)
    assert (await club.say_all("15", "yes", "9/10")).json["routine_number"] == 33
    return club.session, club.token


async def say_in(club: Served, session: tuple[str, str], text: str) -> Reply:
    other = Served(club.http, club.address, club.model, club.providers, club.database)
    other.session, other.token = session
    return await other.say(text)


@pytest.mark.slow  # starts a program or a server
async def test_one_of_two_parents_gets_the_shirt(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        sessions = [await go_to_shirt(club, child) for child in ("Ann", "Ben")]
        replies = await asyncio.gather(*(say_in(club, one, "7") for one in sessions))
        steps = {reply.json["routine_number"]: reply.json["response"] for reply in replies}
        assert sorted(steps) == [33, 34]
        assert "number 7 has gone already" in steps[33]
        assert "These are free: " in steps[33]
        assert not any(name in steps[33] for name in ("Ann Jones", "Ben Jones"))


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("fault", ["late", "late_act", "drop_after", "nonsense", "error_after"])
async def test_an_answer_that_comes_too_late_doubles_nothing(tmp_path: Path, fault: Fault) -> None:
    script = [fault]
    faults = {name: Faults(script, late=0.3) for name in ("payments", "sms")}
    short = {"payments_total_seconds": "0.1", "sms_total_seconds": "0.1"}
    async with serve_club(tmp_path, provider_faults=faults, clock=BEFORE_SEASON, **short) as club:
        registration = await ask_for_payment(club)
        assert await find_step(club) == 30
        assert registration.status == "pending_payment"
        await asyncio.sleep(0.4)  # what the provider does late happens now
        assert len(club.providers.payments.requests) == len(club.providers.sms.inbox) == 1


def save_backup(folder: Path) -> None:
    with (
        closing(connect(folder / "club.db")) as source,
        closing(connect(folder / "backup.db")) as copy,
    ):
        source.backup(copy)


def restore_backup(folder: Path) -> None:
    for end in ("-wal", "-shm"):
        (folder / f"club.db{end}").unlink(missing_ok=True)
    shutil.copy(folder / "backup.db", folder / "club.db")


@pytest.mark.slow  # starts a program or a server
async def test_a_database_of_yesterday_doubles_nothing(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        session, token = await prepare_session(club.database, "Jack", 29)
        save_backup(tmp_path)
        club.session, club.token = session, token
        await club.say_all("15", "yes", "9/10", "7")
        link = find_link(club)
        await press(club, link, "pay")
        before = await wait_status(club, "active")
        # A webhook that is not accepted yet would be delivered again, and tell the database what it lost.
        await club.providers.payments.wait_delivered()
    restore_backup(tmp_path)
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        # The parent's page still shows step 34; the service asks for the day of payment again.
        club.session, club.token = session, token
        await club.say_all("15", "yes", "9/10", "7")
        after = await load(club)
        assert (after.id, after.billing_request) == (before.id, before.billing_request)
        assert "paid already" in (await open_link(club, link)).json
        await tell_office(club)
        (task,) = await club.database.read(list_tasks)
        assert (task.kind, task.registration_id) == ("restored", before.id)
        assert len(club.providers.payments.requests) == 1
        assert len(club.providers.payments.subscriptions) == 1
        assert len([one for one in club.providers.sms.inbox if "/pay/" in one.text]) == 1


async def tell_office(club: Served) -> None:
    """Compare the database with the payment provider, as the command does."""
    settings = read_settings({**club.providers.environment, **KEYS})
    async with PaymentProvider(settings.payments) as payments:
        found = await reconcile(club.database, payments, settings, BEFORE_SEASON.now())
        again = await reconcile(club.database, payments, settings, BEFORE_SEASON.now())
    assert (len(found.corrected), len(again.corrected)) == (1, 0)
