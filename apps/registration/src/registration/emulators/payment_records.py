"""What the emulated payment provider saves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

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
