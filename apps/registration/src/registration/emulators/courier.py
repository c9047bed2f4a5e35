"""Sends the webhooks of the emulated payment provider, until each one is accepted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import aiohttp
import msgspec
from msgspec import Struct

from registration.emulators.ledger import Delivery, Ledger
from registration.providers import PaymentEvent, sign
from registration.providers.webhooks import SIGNATURE_HEADER, WebhookBody


class WebhookPlan(Struct, frozen=True, kw_only=True):
    """How webhooks arrive.

    Args:
        copies: how often each event is sent.
        delay: seconds from an event to its first webhook.
        gap: seconds between two webhooks of one act.
        reverse: whether the last event of an act is sent first.
        spread: each webhook is later by a random time of up to so many seconds, so that webhooks
            of different acts overtake each other.
        before_answer: whether they are sent before the request is answered that caused them.
        seed: of the random times.
        waits: seconds before a webhook is sent again that was not accepted; the last one repeats.
        answer_seconds: how long the receiver may take.
    """

    copies: int = 2
    delay: float = 0.0
    gap: float = 0.01
    reverse: bool = False
    spread: float = 0.0
    before_answer: bool = False
    seed: int = 0
    waits: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 5.0)
    answer_seconds: float = 5.0


class Courier:
    """Sends the webhooks that are due, one after the other, oldest first.

    Args:
        ledger: where the webhooks are saved.
        secret: of the signatures.
        plan: how they arrive.
        now: seconds since the epoch.
    """

    def __init__(
        self, ledger: Ledger, secret: str, plan: WebhookPlan, now: Callable[[], float] = time.time
    ) -> None:
        self.plan = plan
        self.address: str | None = None
        self._ledger = ledger
        self._secret = secret
        self._now = now
        self._rng = random.Random(plan.seed)
        self._session: aiohttp.ClientSession | None = None
        self._latest: set[int] = set()
        self._sending: set[int] = set()
        self._wake = asyncio.Event()
        self._accepted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def schedule(self, events: Sequence[PaymentEvent]) -> None:
        """Save the webhooks of one act; call it inside the change of the ledger."""
        copies = [event for _ in range(self.plan.copies) for event in events]
        if self.plan.reverse:
            copies.reverse()
        first = self._now() + self.plan.delay
        self._latest = set()
        for place, event in enumerate(copies):
            body = msgspec.json.encode(WebhookBody((event,)))
            due = first + place * self.plan.gap + self._rng.uniform(0, self.plan.spread)
            self._latest.add(self._ledger.schedule(event.id, body, due))
        self._wake_up()

    def send_to(self, address: str | None) -> None:
        """Send webhooks to an address from now on; with None they wait."""
        self.address = address
        self._wake_up()

    async def send_before_answer(self) -> None:
        """Send the webhooks of the last act, due or not, if the plan says so."""
        if not self.plan.before_answer:
            return
        latest = self._latest
        for delivery in self._ledger.list_deliveries():
            if delivery.number in latest:
                await self._send(delivery)
        self._wake_up()

    async def run(self) -> None:
        """Send the webhooks that are due, until cancelled."""
        limits = aiohttp.ClientTimeout(total=self.plan.answer_seconds)
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:
            self._session = session
            self._loop = asyncio.get_running_loop()
            try:
                while True:
                    self._wake.clear()
                    wait = await self._send_due()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._wake.wait()
            finally:
                self._session = self._loop = None

    async def wait_delivered(self, seconds: float) -> None:
        """Wait until every webhook was accepted.

        Raises:
            TimeoutError: some are still waiting.
        """
        async with asyncio.timeout(seconds):
            while self._ledger.list_deliveries():
                self._accepted.clear()
                await self._accepted.wait()

    def _wake_up(self) -> None:
        # Acts come from any thread: a test plays the bank.
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _send_due(self) -> float | None:
        """Send the webhooks that are due, and return how many seconds the next one has."""
        if self.address is None:
            return None
        for delivery in self._ledger.list_deliveries():
            if delivery.due <= self._now():
                await self._send(delivery)
        due = [
            delivery.due
            for delivery in self._ledger.list_deliveries()
            if delivery.number not in self._sending
        ]
        return max(0.0, min(due) - self._now()) if due else None

    async def _send(self, delivery: Delivery) -> None:
        if delivery.number in self._sending or self._session is None or self.address is None:
            return
        self._sending.add(delivery.number)
        try:
            if await self._post(self._session, self.address, delivery.body):
                self._ledger.mark_delivered(delivery.number)
                self._accepted.set()
            else:
                waits = self.plan.waits
                wait = waits[min(delivery.attempts, len(waits) - 1)]
                self._ledger.delay(delivery.number, self._now() + wait)
        finally:
            self._sending.discard(delivery.number)

    async def _post(self, session: aiohttp.ClientSession, address: str, body: bytes) -> bool:
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(body, self._secret),
        }
        try:
            async with session.post(
                address, data=body, headers=headers, allow_redirects=False
            ) as response:
                return 200 <= response.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
