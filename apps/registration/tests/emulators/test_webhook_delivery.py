"""Webhooks arrive signed, twice, late, out of order, early, and again until they are accepted."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.emulators import Faults, PaymentEmulator, WebhookPlan, serve
from registration.providers import (
    PaymentEvent,
    PaymentProvider,
    Unanswered,
    read_events,
    verify,
)
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"
SECRET = "secret-of-the-webhooks"
PAID = ["billing_requests.fulfilled", "mandates.active", "payments.confirmed"]


class Receiver:
    """The service's side: keeps the events that are signed, and answers as told."""

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        self.statuses = list(statuses)
        self.events: list[PaymentEvent] = []
        self.at: list[float] = []
        self.app = Starlette(routes=[Route("/webhooks/payments", self.take, methods=["POST"])])

    async def take(self, request: Request) -> Response:
        body = await request.body()
        assert verify(body, request.headers.get("Webhook-Signature"), SECRET)
        status = self.statuses.pop(0) if self.statuses else 200
        self.at.append(time.monotonic())
        if status == 200:
            self.events += read_events(body)
        return Response(status_code=status)

    @property
    def names(self) -> list[str]:
        return [f"{event.resource}.{event.action}" for event in self.events]


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@asynccontextmanager
async def run(
    receiver: Receiver, plan: WebhookPlan, faults: Faults | None = None
) -> AsyncIterator[tuple[PaymentEmulator, PaymentProvider]]:
    emulator = PaymentEmulator(TOKEN, SECRET, plan=plan, faults=faults)
    async with serve(receiver.app) as service, serve(emulator.app) as address:
        emulator.send_webhooks_to(service + "/webhooks/payments")
        endpoint = Endpoint(address=address, token=Secret(TOKEN), total_seconds=30.0)
        async with PaymentProvider(endpoint) as payments:
            yield emulator, payments
    emulator.close()


async def pay(emulator: PaymentEmulator, payments: PaymentProvider) -> str:
    made = await payments.request("registration/7/payment", 4500, "Fee", {"registration": "7"})
    url = await payments.begin_flow(made.id)
    emulator.acts.pay(url.rpartition("/")[2])
    return made.id


async def test_each_event_arrives_twice_with_what_it_belongs_to(receiver: Receiver) -> None:
    async with run(receiver, WebhookPlan()) as (emulator, payments):
        request_id = await pay(emulator, payments)
        await emulator.wait_delivered()
    assert list(dict.fromkeys(receiver.names)) == ["billing_requests.created", *PAID]
    assert set(Counter(event.id for event in receiver.events).values()) == {2}
    assert len(receiver.events) == 8
    for event in receiver.events:
        assert event.links["billing_request"] == request_id
        assert event.metadata == {"registration": "7"}


async def test_out_of_order(receiver: Receiver) -> None:
    async with run(receiver, WebhookPlan(reverse=True, copies=1)) as (emulator, payments):
        await pay(emulator, payments)
        await emulator.wait_delivered()
    assert receiver.names == ["billing_requests.created", *reversed(PAID)]


@pytest.mark.slow  # takes half a second or more
async def test_out_of_order_by_a_seed() -> None:
    orders = []
    for seed in (1, 1, 2, 3):
        receiver = Receiver()
        plan = WebhookPlan(spread=0.1, seed=seed, gap=0.0)
        async with run(receiver, plan) as (emulator, payments):
            await pay(emulator, payments)
            await emulator.wait_delivered()
        orders.append([name for name in receiver.names if name in PAID])
        assert sorted(orders[-1]) == sorted(PAID * 2)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3


async def test_late(receiver: Receiver) -> None:
    async with run(receiver, WebhookPlan(delay=0.2, copies=1)) as (emulator, payments):
        begun = time.monotonic()
        await pay(emulator, payments)
        await emulator.wait_delivered()
    assert min(receiver.at) - begun >= 0.19


async def test_before_the_answer(receiver: Receiver) -> None:
    plan = WebhookPlan(before_answer=True, delay=60, copies=1)
    async with run(receiver, plan) as (_, payments):
        made = await payments.request("key", 4500, "Fee", {})
        assert [event.links for event in receiver.events] == [{"billing_request": made.id}]


async def test_before_an_answer_that_never_comes(receiver: Receiver) -> None:
    plan = WebhookPlan(before_answer=True, copies=1)
    async with run(receiver, plan, Faults(["drop_after"])) as (emulator, payments):
        with pytest.raises(Unanswered):
            await payments.request("key", 4500, "Fee", {"registration": "7"})
        assert receiver.names == ["billing_requests.created"]
        assert receiver.events[0].metadata == {"registration": "7"}
        found = await payments.find("key")
        assert found is not None
        assert receiver.events[0].links == {"billing_request": found.id}
        assert len(emulator.requests) == 1


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("refusal", [500, 503, 401, 404, 302])
async def test_again_until_accepted(refusal: int) -> None:
    receiver = Receiver([refusal, refusal, refusal])
    plan = WebhookPlan(copies=1, waits=(0.01, 0.05))
    async with run(receiver, plan) as (emulator, payments):
        await payments.request("key", 4500, "Fee", {})
        await emulator.wait_delivered()
    assert receiver.names == ["billing_requests.created"]
    waits = [after - before for before, after in zip(receiver.at, receiver.at[1:], strict=False)]
    assert len(waits) == 3
    assert waits[0] >= 0.01
    assert min(waits[1:]) >= 0.05


async def test_one_that_is_not_accepted_delays_no_other() -> None:
    class Picky(Receiver):
        async def take(self, request: Request) -> Response:
            (event,) = read_events(await request.body())
            if event.action == "created" and len(self.events) < len(PAID):
                return Response(status_code=500)
            return await super().take(request)

    receiver = Picky()
    async with run(receiver, WebhookPlan(copies=1, waits=(0.02,))) as (emulator, payments):
        await pay(emulator, payments)
        await emulator.wait_delivered()
    assert receiver.names == [*PAID, "billing_requests.created"]


async def test_a_service_that_is_down_gets_them_later(receiver: Receiver) -> None:
    emulator = PaymentEmulator(TOKEN, SECRET, plan=WebhookPlan(copies=1, waits=(0.05,)))
    async with serve(receiver.app) as gone:
        pass
    async with serve(emulator.app) as address:
        endpoint = Endpoint(address=address, token=Secret(TOKEN))
        emulator.send_webhooks_to(gone + "/webhooks/payments")
        async with PaymentProvider(endpoint) as payments:
            await pay(emulator, payments)
        with pytest.raises(TimeoutError):
            await emulator.wait_delivered(0.2)
        async with serve(receiver.app) as service:
            emulator.send_webhooks_to(service + "/webhooks/payments")
            await emulator.wait_delivered()
    assert sorted(receiver.names) == sorted(["billing_requests.created", *PAID])
    emulator.close()


async def test_nothing_is_sent_without_an_address(receiver: Receiver) -> None:
    async with run(receiver, WebhookPlan(before_answer=True)) as (emulator, payments):
        emulator.send_webhooks_to(None)
        await pay(emulator, payments)
        await asyncio.sleep(0.05)
        assert receiver.events == []


async def test_a_service_that_does_not_answer_holds_an_answer_for_a_while_only() -> None:
    class Stuck(Receiver):
        async def take(self, request: Request) -> Response:
            await free.wait()
            return await super().take(request)

    free = asyncio.Event()
    receiver = Stuck()
    plan = WebhookPlan(before_answer=True, copies=1, answer_seconds=0.1, waits=(0.05,))
    async with run(receiver, plan) as (emulator, payments):
        await payments.request("key", 4500, "Fee", {})
        assert receiver.events == []
        free.set()
        await emulator.wait_delivered()


async def test_waiting_for_a_stuck_service_takes_no_processor_time() -> None:
    class Stuck(Receiver):
        async def take(self, request: Request) -> Response:
            await free.wait()
            return await super().take(request)

    free = asyncio.Event()
    receiver = Stuck()
    plan = WebhookPlan(before_answer=True, copies=1)
    async with run(receiver, plan) as (emulator, payments):
        request = asyncio.create_task(payments.request("key", 4500, "Fee", {}))
        while not emulator.requests:
            await asyncio.sleep(0.01)
        begun = time.process_time()
        await asyncio.sleep(0.2)
        assert time.process_time() - begun < 0.1
        free.set()
        await request
    assert receiver.names == ["billing_requests.created"]


async def test_what_happens_later_is_told(receiver: Receiver) -> None:
    async with run(receiver, WebhookPlan(copies=1)) as (emulator, payments):
        request_id = await pay(emulator, payments)
        first = emulator.payments[0]
        subscription = await payments.subscribe(
            "key", first.mandate, 2750, day=-1, first=date(2025, 9, 30), last=date(2026, 5, 31)
        )
        await emulator.wait_delivered()
        receiver.events.clear()
        emulator.acts.collect(subscription.id, "failed")
        emulator.acts.change_payment(first.id, "charged_back")
        await asyncio.to_thread(emulator.acts.cancel_mandate, first.mandate)
        await emulator.wait_delivered()
    assert receiver.names == [
        "payments.failed",
        "payments.charged_back",
        "mandates.cancelled",
        "subscriptions.cancelled",
    ]
    failed = receiver.events[0]
    assert failed.cause == "insufficient_funds"
    assert failed.links["subscription"] == subscription.id
    assert failed.links["billing_request"] == request_id
    assert "subscription" not in receiver.events[1].links
