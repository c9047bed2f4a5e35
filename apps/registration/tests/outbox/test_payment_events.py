"""Payment events: each applied once, right in the end whatever their order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from apps.registration.tests.outbox.fakes import Service
from apps.registration.tests.store.samples import NOON, new_registration, register
from hypothesis import given
from hypothesis import strategies as st

from registration.outbox import receive_events
from registration.outbox.payment_events import EVENT_WAITS
from registration.providers import PaymentEvent, Refused, Unanswered
from registration.store import Database
from registration.store.payment_state import StoredEvent, fold_events
from registration.store.registrations import (
    save_registration,
    set_payment_request,
    suspend_registration,
)
from registration.store.webhooks import load_payments


def event(
    number: int, kind: str, at: float = 0.0, links: str = "request mandate payment", **more: Any
) -> PaymentEvent:
    """An event of the payment provider that names some of the ids of one registration."""
    resource, _, action = kind.partition(".")
    ids = {"request": "billing_request", "mandate": "mandate", "payment": "payment"}
    named = {ids[link]: f"{link}-1" for link in links.split() if link in ids}
    return PaymentEvent(
        id=f"EV{number}",
        resource=resource,
        action=action,
        created_at=datetime.fromtimestamp(NOON + at, UTC),
        links={**named, **more},
    )


PAID = (
    event(1, "billing_requests.created", 0, "request"),
    event(2, "billing_requests.fulfilled", 10, "request mandate payment"),
    event(3, "mandates.active", 10, "mandate"),
    event(4, "payments.confirmed", 20, "payment"),
    event(5, "payments.paid_out", 30, "payment"),
)


async def pay_request(database: Database) -> str:
    identifier = await register(database)
    await database.transact(
        lambda tx: set_payment_request(tx, identifier, "request-1", "link", NOON)
    )
    return identifier


# The pure fold.

KINDS = (
    *("billing_requests.created", "billing_requests.fulfilled", "billing_requests.cancelled"),
    *("mandates.active", "mandates.cancelled", "mandates.failed"),
    *("payments.confirmed", "payments.failed", "payments.charged_back", "payments.paid_out"),
    *("subscriptions.created", "subscriptions.cancelled", "payments.unheard_of", "other.thing"),
)
ids = st.sampled_from([None, "a", "b"])
stored_events = st.builds(
    StoredEvent,
    event_id=st.uuids().map(str),
    kind=st.sampled_from(KINDS),
    happened_at=st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    billing_request=ids,
    mandate=ids,
    payment=ids,
    subscription=ids,
)


@given(st.lists(stored_events, max_size=5))
def test_every_order_of_the_events_means_the_same(events: list[StoredEvent]) -> None:
    state = fold_events(events)
    assert all(fold_events(order) == state for order in permutations(events))


@given(st.lists(stored_events, max_size=20), st.randoms(use_true_random=False))
def test_events_that_come_again_mean_nothing_more(events: list[StoredEvent], rng: Any) -> None:
    again = [*events, *rng.choices(events, k=len(events))] if events else []
    rng.shuffle(again)
    assert fold_events(again) == fold_events(events)


@given(st.lists(stored_events, max_size=12), stored_events)
def test_who_was_complete_stays_so(events: list[StoredEvent], more: StoredEvent) -> None:
    links = {one.payment for one in events if one.subscription} | (
        {more.payment} if more.subscription else set()
    )
    fees_stay = not any(one.payment in links for one in events)
    if fold_events(events).was_complete and fees_stay:
        assert fold_events([*events, more]).was_complete


def test_of_two_at_the_same_time_the_later_in_life_counts() -> None:
    events = [
        StoredEvent(f"e{n}", kind, 5.0, billing_request="b", mandate="m", payment="p")
        for n, kind in enumerate(["payments.confirmed", "payments.charged_back"])
    ]
    assert fold_events(events).fee_status == "charged_back"


# Applied in the database.


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("order", list(permutations(PAID))[::17])
async def test_in_any_order_it_is_right_in_the_end(
    database: Database, order: tuple[PaymentEvent, ...]
) -> None:
    service, identifier = Service(database), await pay_request(database)
    for one in order:
        await service.receive(one, one)
        await service.receive(one)
    await service.wait(700, 60)
    stored = await service.load(identifier)
    assert (stored.status, stored.fee_status) == ("active", "paid_out")
    assert (stored.signing_fee_paid, stored.mandate_authorised) == (True, True)
    assert (stored.subscription, stored.subscription_activated) == ("SB-0", True)
    assert list(service.sms.sent) == [f"registration/{identifier}/paid"]
    assert list(service.payments.subscriptions) == [f"registration/{identifier}/subscription"]
    (text,) = service.sms.sent.values()
    assert text[0] == "+447700900123"
    assert text[1].startswith("✅ Payment confirmed! Zebedee Quackenbush's registration")
    assert await service.tasks() == []


async def test_events_before_the_answer_they_belong_to_wait_for_it(database: Database) -> None:
    service = Service(database)
    new = new_registration()
    await service.receive(*PAID)
    assert await service.database.transact(lambda tx: save_registration(tx, new, NOON))
    await service.wait(30)
    assert (await service.load(new.id)).status == "incomplete"
    now = service.clock.now
    await database.transact(lambda tx: set_payment_request(tx, new.id, "request-1", "link", now))
    await service.worker.drain()  # at once, and not when their next attempt is due
    assert (await service.load(new.id)).status == "active"


async def test_an_event_that_names_its_registration_needs_no_answer(database: Database) -> None:
    service = Service(database)
    new = new_registration()
    await database.transact(lambda tx: save_registration(tx, new, NOON))
    named = [
        PaymentEvent(
            one.id, one.resource, one.action, one.created_at, one.links, {"registration": new.id}
        )
        for one in PAID
    ]
    await service.receive(*named)
    assert (await service.load(new.id)).status == "active"


async def test_an_event_of_nobody_is_told_to_the_office_once(database: Database) -> None:
    service = Service(database)
    await service.receive(*PAID)
    await service.wait(sum(EVENT_WAITS) + 600, 100)
    tasks = await service.tasks()
    assert [task.key for task in tasks] == [
        f"unknown/{subject}" for subject in ("mandate-1", "payment-1", "request-1")
    ]
    assert {task.kind for task in tasks} == {"restored"}


async def test_either_alone_is_not_active(database: Database) -> None:
    service, identifier = Service(database), await pay_request(database)
    await service.receive(event(1, "billing_requests.fulfilled", 1))
    stored = await service.load(identifier)
    assert (stored.status, stored.mandate_authorised) == ("pending_payment", True)
    assert not stored.signing_fee_paid
    assert service.sms.sent == {}
    await service.receive(event(2, "payments.failed", 2, "payment"))
    (task,) = await service.tasks()
    assert task.reason == "The signing-on fee was not paid: failed."
    second = {"billing_request": "request-1", "payment": "payment-2"}
    await service.receive(event(3, "payments.confirmed", 3, "", **second))
    assert (await service.load(identifier)).status == "active"
    payments = await database.read(lambda tx: load_payments(tx, identifier))
    assert [(one.id, one.status) for one in payments] == [
        ("payment-1", "failed"),
        ("payment-2", "confirmed"),
    ]
    assert await service.tasks() == []


async def test_a_late_payment_restores_who_was_suspended(database: Database) -> None:
    service, identifier = Service(database), await pay_request(database)
    await database.transact(lambda tx: suspend_registration(tx, identifier, NOON))
    await service.receive(*PAID)
    assert (await service.load(identifier)).status == "active"
    assert not await database.transact(lambda tx: suspend_registration(tx, identifier, NOON))


async def test_a_payment_that_is_lost_later_is_a_task_for_a_person(database: Database) -> None:
    service, identifier = Service(database), await pay_request(database)
    await service.receive(event(9, "payments.charged_back", 99, "payment"), *PAID)
    stored = await service.load(identifier)
    assert (stored.status, stored.signing_fee_paid) == ("active", False)
    assert [task.reason for task in await service.tasks()] == [
        "The signing-on fee was not paid: charged back."
    ]


async def test_monthly_payments_have_a_month_and_a_state(database: Database) -> None:
    service, identifier = Service(database), await pay_request(database)
    month = {"subscription": "SB-0", "payment": "payment-oct"}
    created = event(8, "subscriptions.created", 40, "mandate", subscription="SB-0")
    failed = event(10, "payments.failed", 20 * 86_400, "request mandate", **month)
    await service.receive(failed, *PAID, created)
    payments = await database.read(lambda tx: load_payments(tx, identifier))
    assert [(one.kind, one.month, one.status) for one in payments] == [
        ("fee", "2025-09", "paid_out"),
        ("month", "2025-10", "failed"),
    ]
    (task,) = await service.tasks()
    assert task.reason == "The monthly fee of 2025-10 was not paid: failed."
    paid = event(11, "payments.confirmed", 22 * 86_400, "request mandate", **month)
    await service.receive(paid)
    assert await service.tasks() == []
    lost = event(12, "payments.charged_back", 40 * 86_400, "request mandate", **month)
    await service.receive(lost)
    assert [task.reason for task in await service.tasks()] == [
        "The monthly fee of 2025-10 was not paid: charged back."
    ]


async def test_a_subscription_that_is_refused_leaves_the_mandate(database: Database) -> None:
    service, identifier = Service(database), await pay_request(database)
    service.payments.fault = lambda: Refused("payments", "mandate_not_active")
    await service.receive(*PAID)
    stored = await service.load(identifier)
    assert (stored.mandate_authorised, stored.subscription_activated) == (True, False)
    (task,) = await service.tasks()
    assert (task.kind, task.registration_id) == ("refused", identifier)
    assert task.reason.startswith(
        "create_subscription: it did not happen (payments: mandate_not_active"
    )


async def test_a_provider_that_never_answers_leaves_a_doubt(database: Database) -> None:
    service, _ = Service(database), await pay_request(database)
    service.payments.fault = lambda: Unanswered("payments", "timeout")
    await service.receive(*PAID)
    await service.wait(40_000, 600)
    (task,) = await service.tasks()
    assert task.kind == "in_doubt"
    assert "6 attempts" in task.reason


async def test_what_was_sent_before_the_answer_was_lost_is_not_sent_again(
    database: Database,
) -> None:
    service, identifier = Service(database), await pay_request(database)
    service.sms.faults = [Unanswered("sms", "timeout")]
    service.sms.acts_before_fault = True
    await service.receive(*PAID)
    await service.wait(120, 60)
    assert service.sms.calls == 2  # with one key
    assert len(service.sms.sent) == 1
    assert (await service.load(identifier)).sms_status == "sent"


@pytest.mark.slow  # takes half a second or more
async def test_several_workers_apply_the_events_of_one_registration_at_once(
    database: Database,
) -> None:
    service, identifier = Service(database), await pay_request(database)
    others = [Service(database, providers=service) for _ in range(3)]
    await database.transact(lambda tx: receive_events(tx, PAID, NOON))
    await asyncio.gather(*(one.worker.drain() for one in (service, *others)))
    stored = await service.load(identifier)
    assert (stored.status, stored.fee_status) == ("active", "paid_out")
    assert stored.subscription_activated
    assert len(service.payments.subscriptions) == len(service.sms.sent) == 1
    rows = await database.read(lambda tx: tx.execute("SELECT applied_at FROM webhook_events"))
    assert all(row["applied_at"] is not None for row in rows)
