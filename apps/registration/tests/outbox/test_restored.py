"""A database restored from yesterday's backup: nothing is doubled, and the office is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from apps.registration.tests.outbox.fakes import Service
from apps.registration.tests.store.samples import NOON, new_registration

from registration.outbox import kinds, reconcile
from registration.providers import PaymentEvent
from registration.store import Database, open_database
from registration.store.outbox import NewJob
from registration.store.registrations import save_registration

NEW = new_registration()
PAYMENT = f"registration/{NEW.id}/payment"


@pytest.fixture
async def backup(new_url: Callable[[], str]) -> AsyncIterator[Database]:
    """What is restored: a database that knows nothing of what was done since."""
    database = await open_database(new_url())
    yield database
    await database.close()


async def save(database: Database) -> None:
    await database.transact(lambda tx: save_registration(tx, NEW, NOON))


async def ask_for_payment(service: Service) -> None:
    await service.put(NewJob(PAYMENT, kinds.REQUEST_PAYMENT, {}, NEW.id))
    job = NewJob(f"registration/{NEW.id}/sms", kinds.SEND_PAYMENT_LINK, {}, NEW.id)
    await service.put(job)
    await service.worker.drain()


def events() -> list[PaymentEvent]:
    links = {"billing_request": "BRQ-0", "mandate": "MD-0", "payment": "PM-0"}
    when = datetime.fromtimestamp(NOON, UTC)
    told = (("billing_requests", "fulfilled"), ("payments", "confirmed"))
    return [PaymentEvent(f"EV-{one}", one, action, when, links) for one, action in told]


async def complete(database: Database) -> Service:
    """Let a registration be paid in a database, and return its service with the providers."""
    service = Service(database)
    await save(database)
    await ask_for_payment(service)
    service.payments.fulfil(PAYMENT)
    await service.receive(*events())
    assert (await service.load(NEW.id)).status == "active"
    return service


def restore(before: Service, backup: Database) -> Service:
    """Return a service on the restored database, with the same providers."""
    return Service(backup, NOON + 86_400, providers=before)


def count_objects(service: Service) -> tuple[int, int, int]:
    payments = service.payments
    return len(payments.requests), len(payments.subscriptions), len(service.sms.sent)


async def test_the_provider_tells_what_the_backup_does_not_know(
    database: Database, backup: Database
) -> None:
    before = await complete(database)
    await save(backup)
    after = restore(before, backup)
    objects = count_objects(before)
    found = await reconcile(backup, after.payments, after.settings, after.clock.now)
    assert (found.compared, found.corrected, found.unanswered) == (1, (NEW.id,), ())
    await after.worker.drain()
    stored = await after.load(NEW.id)
    assert (stored.billing_request, stored.mandate) == ("BRQ-0", "MD-0")
    assert (stored.subscription, stored.status) == ("SB-0", "pending_payment")
    (task,) = await after.tasks()
    assert task.kind == "restored"
    assert "whether payment PM-0 arrived" in task.reason
    assert count_objects(after) == objects
    again = await reconcile(backup, after.payments, after.settings, after.clock.now)
    assert again.corrected == ()
    # A webhook that comes again, or is asked for again, ends it.
    await after.receive(*events())
    assert (await after.load(NEW.id)).status == "active"
    assert count_objects(after) == objects


async def test_who_is_unknown_after_the_restore_and_registers_again_pays_once(
    database: Database, backup: Database
) -> None:
    before = await complete(database)
    after, objects = restore(before, backup), count_objects(before)
    await save(backup)
    await ask_for_payment(after)
    await after.receive(*events())
    assert (await after.load(NEW.id)).status == "active"
    assert count_objects(after) == objects


async def test_a_webhook_of_an_unknown_registration_is_a_task(
    database: Database, backup: Database
) -> None:
    after = restore(await complete(database), backup)
    await after.receive(*events())
    await after.wait(6000, 300)
    assert {task.kind for task in await after.tasks()} == {"restored"}


async def test_a_provider_that_does_not_answer_is_asked_again(
    database: Database, backup: Database
) -> None:
    after = restore(await complete(database), backup)
    await save(backup)
    after.payments.silent = True
    found = await reconcile(backup, after.payments, after.settings, NOON)
    assert (found.corrected, found.unanswered) == ((), (NEW.id,))
    after.payments.silent = False
    found = await reconcile(backup, after.payments, after.settings, NOON)
    assert found.corrected == (NEW.id,)
