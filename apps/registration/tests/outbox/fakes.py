"""Providers that a test scripts: equal keys give the same object, as the real ones do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from apps.registration.tests.store.samples import NOON
from msgspec.structs import replace

from registration.outbox import Desk, Worker, make_handlers, receive_events
from registration.providers import (
    BillingRequest,
    PaymentEvent,
    Refused,
    SentMessage,
    Subscription,
    Unanswered,
)
from registration.settings import Endpoint, Secret, Settings
from registration.store import Database
from registration.store.outbox import NewJob, enqueue
from registration.store.registrations import Registration, load_registration
from registration.store.tasks import Task, list_tasks


class Clock:
    """A clock that a test moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeMessages:
    """An SMS and mail provider. `faults` are raised by the next calls of `send`, in order."""

    def __init__(self, *faults: Exception | None, acts_before_fault: bool = False) -> None:
        self.faults = list(faults)
        self.acts_before_fault = acts_before_fault
        self.sent: dict[str, tuple[str, ...]] = {}
        self.calls = 0

    async def send(self, key: str, *message: str) -> str:
        self.calls += 1
        if self.sent.get(key, message) != message:
            raise Refused("messages", "other_request")
        fault = self.faults.pop(0) if self.faults else None
        if fault is None or self.acts_before_fault:
            self.sent.setdefault(key, message)
        if fault is not None:
            raise fault
        return f"id of {key}"

    async def find(self, key: str) -> SentMessage | None:
        return SentMessage(f"id of {key}", "sent") if key in self.sent else None


class FakePayments:
    """The payment provider. `fault` is raised by each call that would make something."""

    def __init__(self, fault: Callable[[], Exception] | None = None) -> None:
        self.fault = fault
        self.silent = False
        self.requests: dict[str, BillingRequest] = {}
        self.subscriptions: dict[str, Subscription] = {}

    async def request(
        self, key: str, amount: int, description: str, metadata: Mapping[str, str]
    ) -> BillingRequest:
        if self.fault is not None:
            raise self.fault()
        new = BillingRequest(f"BRQ-{len(self.requests)}", "pending", amount, metadata=metadata)
        return self.requests.setdefault(key, new)

    def fulfil(self, key: str) -> None:
        """Let the parent agree on the provider's page."""
        made = self.requests[key]
        self.requests[key] = replace(made, status="fulfilled", mandate="MD-0", payment="PM-0")

    async def find(self, key: str) -> BillingRequest | None:
        if self.silent:
            raise Unanswered("payments", "timeout")
        return self.requests.get(key)

    async def subscribe(
        self, key: str, mandate: str, amount: int, *, day: int, first: date, last: date
    ) -> Subscription:
        if self.fault is not None:
            raise self.fault()
        number = len(self.subscriptions)
        new = Subscription(f"SB-{number}", "active", mandate, amount, day, first, last)
        return self.subscriptions.setdefault(key, new)

    async def find_subscription(self, key: str) -> Subscription | None:
        return self.subscriptions.get(key)


def make_settings() -> Settings:
    endpoint = Endpoint(address="http://127.0.0.1:1", token=Secret("a token of a provider"))
    return Settings(
        admin_key=Secret("the key of the office"),
        webhook_secret=Secret("the secret of webhooks"),
        link_secret=Secret("the secret of links"),
        payments=endpoint,
        sms=endpoint,
        mail=endpoint,
        addresses=endpoint,
        public_address="https://club.example",
    )


class Service:
    """A worker with all handlers, a clock, and fake providers: new ones, or another service's."""

    def __init__(
        self, database: Database, now: float = NOON, providers: Service | None = None
    ) -> None:
        self.database = database
        self.settings = make_settings()
        self.clock = Clock(now)
        self.sms = providers.sms if providers else FakeMessages()
        self.mail = providers.mail if providers else FakeMessages()
        self.payments = providers.payments if providers else FakePayments()
        desk = Desk(
            settings=self.settings,
            database=database,
            payments=self.payments,
            sms=self.sms,
            mail=self.mail,
            now=self.clock,
        )
        self.worker = Worker(database, make_handlers(desk), self.clock)

    async def receive(self, *events: PaymentEvent) -> int:
        new = await self.database.transact(lambda tx: receive_events(tx, events, self.clock.now))
        await self.worker.drain()
        return new

    async def put(self, new: NewJob) -> None:
        await self.database.transact(lambda tx: enqueue(tx, new, self.clock.now))

    async def wait(self, seconds: float, step: float = 5.0) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += step
            await self.worker.drain()

    async def load(self, identifier: str) -> Registration:
        found = await self.database.read(lambda tx: load_registration(tx, identifier))
        assert found is not None
        return found

    async def tasks(self) -> list[Task]:
        return await self.database.read(list_tasks)
