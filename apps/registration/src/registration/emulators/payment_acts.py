"""The acts at the emulated payment provider: each is one change of its ledger, with its webhooks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from registration.emulators.api import ApiError, make_id
from registration.emulators.courier import Courier
from registration.emulators.ledger import IdempotencyKey, Ledger
from registration.providers import PaymentEvent

Pence = Annotated[int, Meta(ge=1, le=1_000_000)]
PaymentState = Literal["confirmed", "failed", "cancelled", "charged_back", "paid_out"]


class StoredRequest(Struct, frozen=True):
    """A billing request."""

    id: str
    status: Literal["pending", "fulfilled", "cancelled"]
    amount: Pence
    description: str
    metadata: Mapping[str, str]
    mandate: str | None = None
    payment: str | None = None

    def __repr__(self) -> str:
        return f"StoredRequest({self.id!r}, {self.status!r})"


class StoredFlow(Struct, frozen=True):
    """A hosted page: its id is the secret part of its address."""

    id: str
    billing_request: str
    state: Literal["open", "paid", "cancelled"] = "open"


class StoredMandate(Struct, frozen=True):
    """The permission to take payments."""

    id: str
    billing_request: str
    metadata: Mapping[str, str]
    status: Literal["active", "cancelled"] = "active"


class StoredPayment(Struct, frozen=True):
    """One payment: the first one of a billing request, or one of a subscription."""

    id: str
    status: PaymentState
    amount: Pence
    mandate: str
    billing_request: str
    metadata: Mapping[str, str]
    subscription: str | None = None


class StoredSubscription(Struct, frozen=True):
    """Payments that are taken each month."""

    id: str
    status: Literal["active", "cancelled", "finished"]
    mandate: str
    amount: Pence
    day: int
    first: date
    last: date
    metadata: Mapping[str, str]


class RequestBody(Struct, frozen=True):
    """The body of `POST /v1/billing_requests`."""

    amount: Pence
    description: Annotated[str, Meta(min_length=1, max_length=200)]
    metadata: Mapping[str, str] = {}


class FlowBody(Struct, frozen=True):
    """The body of `POST /v1/billing_request_flows`."""

    billing_request: str


class SubscriptionBody(Struct, frozen=True):
    """The body of `POST /v1/subscriptions`."""

    mandate: str
    amount: Pence
    day: Annotated[int, Meta(ge=-1, le=28)]
    first: date
    last: date


PAID = ("confirmed", "paid_out")


class PaymentActs:
    """The acts of the API, of the payer, and of the banks.

    Args:
        ledger: the records of the provider.
        courier: sends the webhooks.
        now: seconds since the epoch.
    """

    def __init__(
        self, ledger: Ledger, courier: Courier, now: Callable[[], float] = time.time
    ) -> None:
        self._ledger = ledger
        self._courier = courier
        self._now = now
        self._events: list[PaymentEvent] = []

    def request(self, key: IdempotencyKey, body: RequestBody) -> StoredRequest:
        """Create a billing request, or return the one of this key."""
        with self._act():
            known = self._ledger.find_same(StoredRequest, key)
            if known is not None:
                return known
            made = StoredRequest(
                make_id("BRQ"), "pending", body.amount, body.description, body.metadata
            )
            self._ledger.add(made, key)
            links = {"billing_request": made.id}
            self._emit_event("billing_requests", "created", links, made.metadata)
        return made

    def begin_flow(self, body: FlowBody) -> StoredFlow:
        """Create a new page for a billing request that is not paid."""
        with self._act():
            request = self.get_request(body.billing_request)
            if request.status == "cancelled":
                raise ApiError(422, "cancelled")
            if self.is_paid(request):
                raise ApiError(422, "already_paid")
            flow = StoredFlow(secrets.token_urlsafe(16), request.id)
            self._ledger.add(flow)
        return flow

    def pay(self, flow_id: str, outcome: PaymentState = "confirmed") -> StoredFlow:
        """Pay on a page: once, however often it is sent and however many pages are open."""
        with self._act():
            flow = self.get_flow(flow_id)
            request = self.get_request(flow.billing_request)
            payable = request.status != "cancelled" and not self.is_paid(request)
            if flow.state == "open" and payable:
                flow = replace(flow, state="paid")
                self._ledger.save(flow)
                self._fulfil(request, outcome)
        return flow

    def _fulfil(self, request: StoredRequest, outcome: PaymentState) -> None:
        mandate = request.mandate
        if mandate is None or not self._is_active(mandate):
            mandate = make_id("MD")
            self._ledger.add(StoredMandate(mandate, request.id, request.metadata))
            links = {"billing_request": request.id, "mandate": mandate}
            self._emit_event("billing_requests", "fulfilled", links, request.metadata)
            self._emit_event("mandates", "active", links, request.metadata)
        payment = make_id("PM")
        made = StoredPayment(
            payment, outcome, request.amount, mandate, request.id, request.metadata
        )
        self._ledger.add(made)
        self._emit_payment(made)
        self._ledger.save(replace(request, status="fulfilled", mandate=mandate, payment=payment))

    def leave(self, flow_id: str) -> StoredFlow:
        """Cancel on a page: the page is closed, and the billing request goes on waiting."""
        with self._act():
            flow = self.get_flow(flow_id)
            if flow.state == "open":
                flow = replace(flow, state="cancelled")
                self._ledger.save(flow)
                metadata = self.get_request(flow.billing_request).metadata
                links = {"billing_request": flow.billing_request}
                self._emit_event("billing_requests", "flow_exited", links, metadata)
        return flow

    def cancel_request(self, request_id: str) -> None:
        """Take a billing request back, as a person does on the provider's own site."""
        with self._act():
            request = self.get_request(request_id)
            self._ledger.save(replace(request, status="cancelled"))
            links = {"billing_request": request.id}
            self._emit_event("billing_requests", "cancelled", links, request.metadata)

    def subscribe(self, key: IdempotencyKey, body: SubscriptionBody) -> StoredSubscription:
        """Create a subscription, or return the one of this key."""
        with self._act():
            known = self._ledger.find_same(StoredSubscription, key)
            if known is not None:
                return known
            if body.day == 0 or body.first > body.last:
                raise ApiError(422, "invalid")
            mandate = self._ledger.get(StoredMandate, body.mandate)
            if mandate is None:
                raise ApiError(422, "mandate_not_found")
            if mandate.status != "active":
                raise ApiError(422, "mandate_not_active")
            made = StoredSubscription(
                make_id("SB"),
                "active",
                mandate.id,
                body.amount,
                body.day,
                body.first,
                body.last,
                mandate.metadata,
            )
            self._ledger.add(made, key)
            self._emit_subscription(made, "created")
        return made

    def collect(self, subscription_id: str, outcome: PaymentState) -> StoredPayment:
        """Take one month's payment of a subscription."""
        with self._act():
            subscription = self._ledger.get(StoredSubscription, subscription_id)
            if subscription is None:
                raise ApiError(404, "not_found")
            mandate = self._ledger.get(StoredMandate, subscription.mandate)
            if subscription.status != "active" or mandate is None:
                raise ApiError(422, "subscription_not_active")
            payment = StoredPayment(
                make_id("PM"),
                outcome,
                subscription.amount,
                mandate.id,
                mandate.billing_request,
                subscription.metadata,
                subscription.id,
            )
            self._ledger.add(payment)
            self._emit_payment(payment)
        return payment

    def change_payment(self, payment_id: str, outcome: PaymentState) -> StoredPayment:
        """Let a payment fail, be charged back, or be paid out, as banks do later."""
        with self._act():
            payment = self._ledger.get(StoredPayment, payment_id)
            if payment is None:
                raise ApiError(404, "not_found")
            payment = replace(payment, status=outcome)
            self._ledger.save(payment)
            self._emit_payment(payment)
        return payment

    def cancel_mandate(self, mandate_id: str) -> None:
        """Let the payer cancel the mandate at the bank: its subscriptions end, too."""
        with self._act():
            mandate = self._ledger.get(StoredMandate, mandate_id)
            if mandate is None:
                raise ApiError(404, "not_found")
            self._ledger.save(replace(mandate, status="cancelled"))
            links = {"mandate": mandate.id, "billing_request": mandate.billing_request}
            self._emit_event(
                "mandates", "cancelled", links, mandate.metadata, "bank_account_closed"
            )
            for subscription in self._ledger.list_things(StoredSubscription):
                if subscription.mandate == mandate_id and subscription.status == "active":
                    self._ledger.save(replace(subscription, status="cancelled"))
                    self._emit_subscription(subscription, "cancelled")

    def get_flow(self, flow_id: str) -> StoredFlow:
        """Return the page with an id."""
        flow = self._ledger.get(StoredFlow, flow_id)
        if flow is None:
            raise ApiError(404, "not_found")
        return flow

    def is_paid(self, request: StoredRequest) -> bool:
        """Return whether the last payment of a billing request was not lost again."""
        if request.payment is None:
            return False
        payment = self._ledger.get(StoredPayment, request.payment)
        return payment is not None and payment.status in PAID

    def get_request(self, request_id: str) -> StoredRequest:
        """Return the billing request with an id."""
        request = self._ledger.get(StoredRequest, request_id)
        if request is None:
            raise ApiError(404, "not_found")
        return request

    def _is_active(self, mandate_id: str) -> bool:
        mandate = self._ledger.get(StoredMandate, mandate_id)
        return mandate is not None and mandate.status == "active"

    @contextmanager
    def _act(self) -> Iterator[None]:
        """Change the ledger; the webhooks of the act are part of the change."""
        with self._ledger.change():
            self._events = []
            yield
            self._courier.schedule(self._events)

    def _emit_event(
        self,
        resource: str,
        action: str,
        links: Mapping[str, str],
        metadata: Mapping[str, str],
        cause: str | None = None,
    ) -> None:
        at = datetime.fromtimestamp(self._now(), UTC)
        event = PaymentEvent(make_id("EV"), resource, action, at, links, metadata, cause)
        self._events.append(event)

    def _emit_payment(self, payment: StoredPayment) -> None:
        links = {
            "payment": payment.id,
            "mandate": payment.mandate,
            "billing_request": payment.billing_request,
        }
        if payment.subscription is not None:
            links["subscription"] = payment.subscription
        cause = "insufficient_funds" if payment.status == "failed" else None
        self._emit_event("payments", payment.status, links, payment.metadata, cause)

    def _emit_subscription(self, subscription: StoredSubscription, action: str) -> None:
        links = {"subscription": subscription.id, "mandate": subscription.mandate}
        self._emit_event("subscriptions", action, links, subscription.metadata)
