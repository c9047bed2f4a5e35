"""The handlers: what they ask of providers, once for each key."""

from __future__ import annotations

import pytest
from apps.registration.tests.outbox.fakes import Service
from apps.registration.tests.store.samples import NOON, new_registration, register

from holdfast.outbox import JobFailed, JobRetry
from registration.outbox import kinds, read_failure, resend_link, retry_failed_job
from registration.outbox.texts import make_link, make_link_token
from registration.providers import ProviderFailure, Refused, Unanswered
from registration.store import Database
from registration.store.effects import find_effect
from registration.store.outbox import NewJob, find_job, list_jobs
from registration.store.registrations import find_by_link, save_registration


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (Refused("sms", "unreachable"), JobRetry("sms: unreachable")),
        (Refused("sms", "busy", 9.0), JobRetry("sms: busy", 9.0)),
        (Refused("sms", "bad_number"), JobFailed("sms: bad_number")),
        (Unanswered("sms", "timeout"), JobRetry("sms: timeout", in_doubt=True)),
    ],
)
def test_a_failure_of_a_provider_is_an_outcome(
    failure: ProviderFailure, outcome: JobRetry | JobFailed
) -> None:
    assert read_failure(failure) == outcome


async def test_a_payment_that_was_left_for_later_is_asked_for(database: Database) -> None:
    service, new = Service(database), new_registration()
    await database.transact(lambda tx: save_registration(tx, new, NOON))
    key = f"registration/{new.id}/payment"
    service.payments.fault = lambda: Unanswered("payments", "timeout")
    await service.put(NewJob(key, kinds.REQUEST_PAYMENT, {}, new.id))
    await service.worker.drain()
    assert (await service.load(new.id)).status == "incomplete"
    service.payments.fault = None
    await service.wait(60, 60)
    stored = await service.load(new.id)
    assert (stored.status, stored.billing_request) == ("pending_payment", "BRQ-0")
    (made,) = service.payments.requests.values()
    assert (made.amount, made.metadata) == (4500, {"registration": new.id})
    token = make_link_token(service.settings, new.id)
    assert await database.read(lambda tx: find_by_link(tx, token))
    effect = await database.read(lambda tx: find_effect(tx, key))
    assert effect == {"billing_request": "BRQ-0"}


async def test_the_link_is_sent_once_also_if_a_turn_sent_it_before(database: Database) -> None:
    service, owner = Service(database), await register(database)
    key = f"registration/{owner}/sms"
    await service.put(NewJob(key, kinds.SEND_PAYMENT_LINK, {}, owner))
    await service.worker.drain()
    ((to, text),) = service.sms.sent.values()
    assert to == "+447700900123"
    assert text.endswith(make_link(service.settings, owner))
    # A turn sent it before, to a number that was corrected since: the provider refuses the key.
    again, other = f"registration/{owner}/again", ("+447000000000", "Hi!")
    service.sms.sent[again] = other
    await service.put(NewJob(again, kinds.SEND_PAYMENT_LINK, {}, owner))
    await service.worker.drain()
    job = await database.read(lambda tx: find_job(tx, again))
    assert job is not None
    assert (job.state, service.sms.sent[again]) == ("sent", other)


async def test_the_club_is_told_that_no_message_came(database: Database) -> None:
    service, owner = Service(database), await register(database)
    await service.put(NewJob("r/mail", kinds.SEND_MAIL, {"template": "no_link"}, owner))
    await service.worker.drain()
    ((to, _, text),) = service.mail.sent.values()
    assert to == "admin@club.example"
    assert owner in text
    assert "Quackenbush" not in text


@pytest.mark.parametrize(("chosen", "asked"), [(1, 1), (28, 28), (29, -1), (31, -1), (-1, -1)])
async def test_late_days_are_the_last_of_the_month(
    database: Database, chosen: int, asked: int
) -> None:
    service, owner = Service(database), await register(database)
    await database.transact(
        lambda tx: tx.execute("UPDATE registrations SET payment_day = ?", chosen)
    )
    plan = {"mandate": "MD1", "authorised_on": "2025-09-15"}
    await service.put(NewJob(f"r/{chosen}", kinds.CREATE_SUBSCRIPTION, plan, owner))
    await service.worker.drain()
    (made,) = service.payments.subscriptions.values()
    assert (made.day, made.amount, made.last.isoformat()[:7]) == (asked, 2750, "2026-05")
    stored = await service.load(owner)
    assert (stored.subscription, stored.subscription_activated) == ("SB-0", True)


async def test_a_season_without_a_day_left_is_a_task(database: Database) -> None:
    service, owner = Service(database), await register(database)
    plan = {"mandate": "MD1", "authorised_on": "2026-05-30"}
    await service.put(NewJob("r/late", kinds.CREATE_SUBSCRIPTION, plan, owner))
    await service.worker.drain()
    (task,) = await service.tasks()
    assert "no payment day is left" in task.reason


async def test_a_job_of_a_deleted_registration_sends_nothing(database: Database) -> None:
    service = Service(database)
    await service.put(NewJob("r/paid", kinds.SEND_SMS, {"template": "paid"}, "deleted"))
    await service.wait(3000, 300)  # a registration may be saved soon after a job for it
    job = await database.read(lambda tx: find_job(tx, "r/paid"))
    assert job is not None
    assert (job.state, service.sms.sent) == ("failed", {})


async def test_the_office_lets_a_failed_job_be_tried_again(database: Database) -> None:
    service, owner = Service(database), await register(database)
    key = f"registration/{owner}/sms"
    service.sms.faults = [Refused("sms", "bad_number")]
    await service.put(NewJob(key, kinds.SEND_PAYMENT_LINK, {}, owner))
    await service.worker.drain()
    assert [task.key for task in await service.tasks()] == [f"{key}/failed"]
    tried = [await database.transact(lambda tx: retry_failed_job(tx, key, NOON)) for _ in range(2)]
    assert tried == [True, False]
    await service.worker.drain()
    assert await service.tasks() == []
    assert (await service.load(owner)).sms_status == "sent"
    assert [job.state for job in await database.read(lambda tx: list_jobs(tx, owner))] == ["sent"]


async def test_a_click_sends_the_link_once_more(database: Database) -> None:
    service, owner = Service(database), await register(database)
    for click in ("first", "first", "second"):
        await database.transact(lambda tx, c=click: resend_link(tx, owner, c, NOON))
    await service.worker.drain()
    assert len(service.sms.sent) == 2


async def test_a_task_that_failed_again_is_open_again(database: Database) -> None:
    service, owner = Service(database), await register(database)
    key = f"registration/{owner}/sms"
    service.sms.faults = [Refused("sms", "bad_number"), Refused("sms", "bad_number")]
    await service.put(NewJob(key, kinds.SEND_PAYMENT_LINK, {}, owner))
    await service.worker.drain()
    await database.transact(lambda tx: retry_failed_job(tx, key, NOON))
    await service.worker.drain()
    assert [task.key for task in await service.tasks()] == [f"{key}/failed"]
