"""The worker with real clients and emulated providers that fail by chance, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from apps.registration.tests.outbox.fakes import Clock
from apps.registration.tests.store.samples import NOON, new_registration, player
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.emulators import Faults, WebhookPlan, run_emulators, serve
from registration.emulators.payment_acts import FlowBody
from registration.outbox import Desk, Worker, kinds, make_handlers, receive_events
from registration.providers import Mailer, PaymentProvider, SmsProvider, read_events, verify
from registration.settings import read_settings
from registration.store import Database
from registration.store.outbox import NewJob, enqueue
from registration.store.registrations import load_registration, save_registration
from registration.store.tasks import list_tasks

NAMES = ("Zebedee", "Dougal", "Florence", "Ermintrude", "Brian", "Dylan")
KEYS = {
    "REGISTRATION_ADMIN_KEY": "the-key-of-the-office",
    "REGISTRATION_LINK_SECRET": "the-secret-of-the-links",
}


class Play:
    """The service's outbox beside emulated providers."""

    def __init__(self, database: Database, providers: Any, desk: Desk, clock: Clock) -> None:
        self.database = database
        self.providers = providers
        self.clock = clock
        self.worker = Worker(database, make_handlers(desk), clock)
        self.app = Starlette(routes=[Route("/webhooks/payments", self.receive, methods=["POST"])])

    async def receive(self, request: Request) -> Response:
        body = await request.body()
        secret = self.providers.environment["REGISTRATION_WEBHOOK_SECRET"]
        assert verify(body, request.headers.get("Webhook-Signature"), secret)
        events = read_events(body)
        await self.database.transact(lambda tx: receive_events(tx, events, self.clock.now))
        return Response()

    async def drain(self, hours: int = 3) -> None:
        for _ in range(hours * 6):
            await self.worker.drain()
            self.clock.now += 600

    def pay_everything(self) -> None:
        acts = self.providers.payments.acts
        for request in self.providers.payments.requests:
            acts.pay(acts.begin_flow(FlowBody(request.id)).id)


@pytest.fixture
async def play(database: Database) -> AsyncIterator[Play]:
    faults = {name: Faults(chance=0.3, seed=4, late=0.01) for name in ("payments", "sms", "mail")}
    plan = WebhookPlan(reverse=True, spread=0.02, gap=0.0)
    clock = Clock(NOON)
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(run_emulators(faults=faults, plan=plan))
        providers.payments.acts._now = clock
        settings = read_settings({**providers.environment, **KEYS})
        clients: dict[str, Any] = {
            "payments": PaymentProvider(settings.payments),
            "sms": SmsProvider(settings.sms),
            "mail": Mailer(settings.mail),
        }
        for client in clients.values():
            stack.push_async_callback(client.close)
        desk = Desk(settings=settings, database=database, now=clock, **clients)
        playing = Play(database, providers, desk, clock)
        address = await stack.enter_async_context(serve(playing.app))
        providers.payments.send_webhooks_to(f"{address}/webhooks/payments")
        yield playing


@pytest.mark.slow  # takes half a second or more
async def test_each_child_is_active_with_one_payment_and_one_of_each_message(play: Play) -> None:
    owners = []
    for name in NAMES:
        new = new_registration(f"session-{name}", player(name))
        owners.append(new.id)

        def begin(tx: Any, new: Any = new) -> None:
            save_registration(tx, new, NOON)
            key = f"registration/{new.id}"
            enqueue(tx, NewJob(f"{key}/payment", kinds.REQUEST_PAYMENT, {}, new.id), NOON)
            enqueue(tx, NewJob(f"{key}/sms", kinds.SEND_PAYMENT_LINK, {}, new.id), NOON)

        await play.database.transact(begin)
    await play.drain()
    play.pay_everything()
    await play.providers.payments.wait_delivered()
    await play.drain()
    await play.providers.payments.wait_delivered()
    await play.drain()
    for owner in owners:
        stored = await play.database.read(lambda tx, owner=owner: load_registration(tx, owner))
        assert stored is not None
        assert (stored.status, stored.subscription_activated) == ("active", True)
        assert (stored.sms_status, stored.fee_status) == ("sent", "confirmed")
    assert len(play.providers.payments.requests) == len(NAMES)
    assert len(play.providers.payments.payments) == len(NAMES)
    assert len(play.providers.payments.subscriptions) == len(NAMES)
    assert len(play.providers.sms.inbox) == 2 * len(NAMES)
    assert await play.database.read(list_tasks) == []
    met = {one.fault for one in play.providers.payments.faults.happened}
    assert len(met) > 2  # so that this test says something
