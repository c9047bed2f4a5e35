"""The client of the payment provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

from msgspec import Struct

from registration.providers.connection import ProviderClient

LAST_DAY = -1  # the day of a payment that is taken on the last day of each month


class BillingRequest(Struct, frozen=True):
    """A request for a first payment and for the permission to take more (the mandate).

    Args:
        id: such as `BRQ0123456789`.
        status: "fulfilled" when the payer agreed.
        amount: pence of the first payment.
        mandate: the id of the mandate, once the payer agreed.
        payment: the id of the first payment, once the payer agreed.
        metadata: the metadata of the request.
    """

    id: str
    status: Literal["pending", "fulfilled", "cancelled"]
    amount: int
    mandate: str | None = None
    payment: str | None = None
    metadata: Mapping[str, str] = {}


class Subscription(Struct, frozen=True):
    """Payments that are taken each month from a mandate.

    Args:
        id: such as `SB0123456789`.
        status: whether payments are still taken.
        mandate: the id of the mandate.
        amount: pence of each payment.
        day: 1 to 28, or -1 for the last day of the month.
        first: the day from which payments are taken.
        last: the day after which none is taken.
    """

    id: str
    status: Literal["active", "cancelled", "finished"]
    mandate: str
    amount: int
    day: int
    first: date
    last: date


class Flow(Struct, frozen=True):
    """The answer with the address of a hosted page."""

    authorisation_url: str


class PaymentProvider(ProviderClient):
    """Asks for payments.

    Args:
        endpoint: address, token and time limits.
    """

    PROVIDER = "payments"

    async def request(
        self, key: str, amount: int, description: str, metadata: Mapping[str, str]
    ) -> BillingRequest:
        """Create a billing request, once for each key.

        Args:
            key: the idempotency key.
            amount: pence of the first payment.
            description: the text for the payer on the page.
            metadata: ids only; it comes back in webhooks.

        Raises:
            Refused: there is no billing request.
            Unanswered: there may be one; `find` shows it.
        """
        body = {"amount": amount, "description": description, "metadata": dict(metadata)}
        return await self._create("/v1/billing_requests", body, BillingRequest, key)

    async def find(self, key: str) -> BillingRequest | None:
        """Return the billing request that was made with a key as it is now, or None.

        Raises:
            Refused: the provider does not say.
            Unanswered: there was no answer.
        """
        return await self._find("/v1/billing_requests", key, BillingRequest)

    async def begin_flow(self, request_id: str) -> str:
        """Return the address of a new hosted page, on which the payer pays or cancels.

        Raises:
            Refused: the reason is "already_paid", "cancelled" or "not_found", among others.
            Unanswered: there was no answer; ask again, a flow that nobody opens does no harm.
        """
        body = {"billing_request": request_id}
        flow = await self._create("/v1/billing_request_flows", body, Flow)
        return flow.authorisation_url

    async def subscribe(
        self, key: str, mandate: str, amount: int, *, day: int, first: date, last: date
    ) -> Subscription:
        """Create a subscription, once for each key.

        Args:
            key: the idempotency key.
            mandate: the id of an active mandate.
            amount: pence of each payment.
            day: 1 to 28, or -1 for the last day of the month.
            first: the day from which payments are taken.
            last: the day after which none is taken.

        Raises:
            Refused: there is no subscription.
            Unanswered: there may be one; `find_subscription` shows it.
        """
        body = {"mandate": mandate, "amount": amount, "day": day, "first": first, "last": last}
        return await self._create("/v1/subscriptions", body, Subscription, key)

    async def find_subscription(self, key: str) -> Subscription | None:
        """Return the subscription that was made with a key as it is now, or None.

        Raises:
            Refused: the provider does not say.
            Unanswered: there was no answer.
        """
        return await self._find("/v1/subscriptions", key, Subscription)
