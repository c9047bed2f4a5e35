"""The meaning of the payment provider's events together. Pure: the order of the events does not matter.

Of each payment, mandate and subscription the event counts that happened last. If two happened at
the same time, the one that comes later in its life counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

from registration.club.time_zone import LONDON

# By resource: the actions that change its state, in the order of its life.
_LIVES: Final = {
    "billing_requests": ("created", "cancelled", "fulfilled"),
    "mandates": ("created", "submitted", "active", "failed", "cancelled", "expired"),
    "payments": (
        *("created", "submitted", "confirmed", "paid_out"),
        *("failed", "cancelled", "charged_back"),
    ),
    "subscriptions": ("created", "finished", "cancelled"),
}
RESOURCES: Final = frozenset(_LIVES)
"""The objects of a registration that an event can be about."""

_PAID: Final = frozenset({"confirmed", "paid_out"})
LOST: Final = frozenset({"failed", "cancelled", "charged_back"})
_ENDED: Final = frozenset({"failed", "cancelled", "expired"})


class StoredEvent(Struct, frozen=True):
    """An event of the payment provider, with the ids that it names."""

    event_id: str
    kind: str  # the resource and the action, such as "payments.confirmed"
    happened_at: float
    registration_id: str | None = None
    billing_request: str | None = None
    mandate: str | None = None
    payment: str | None = None
    subscription: str | None = None

    @property
    def resource(self) -> str:
        """The kind of its object, such as "payments"."""
        return self.kind.partition(".")[0]

    @property
    def action(self) -> str:
        """The act, such as "confirmed"."""
        return self.kind.partition(".")[2]

    @property
    def subject(self) -> str | None:
        """The id of the payment, mandate, subscription or billing request that it is about."""
        return {
            "billing_requests": self.billing_request,
            "mandates": self.mandate,
            "payments": self.payment,
            "subscriptions": self.subscription,
        }.get(self.resource)


class PaymentRecord(Struct, frozen=True):
    """One payment and its state."""

    id: str
    kind: str  # fee, month
    month: str  # of its first event, such as "2025-10"
    status: str
    updated_at: float


class PaymentState(Struct, frozen=True):
    """All that the events of one registration say.

    Args:
        mandate: the mandate that was authorised last.
        mandate_authorised: whether it is in force.
        fee_status: the state of the signing-on fee: of the payment that was paid, else the last.
        fee_paid: whether the fee is paid.
        was_complete: whether fee and mandate were both in order, now or at some time.
        subscription: the subscription that changed last.
        subscription_status: its state.
        payments: every payment, by its id.
        authorised_at: when the mandate was authorised first.
    """

    mandate: str | None
    mandate_authorised: bool
    fee_status: str | None
    fee_paid: bool
    was_complete: bool
    subscription: str | None
    subscription_status: str | None
    payments: tuple[PaymentRecord, ...]
    authorised_at: float | None


def fold_events(events: Iterable[StoredEvent]) -> PaymentState:
    """Return the state that the events of one registration add up to, in any order, each any number of times."""
    known = frozenset(one for one in events if _rank(one) is not None)
    authorised = [one for one in known if _authorises(one)]
    mandate = max(authorised, key=_moment).mandate if authorised else None
    ends = _find_last(one for one in known if one.resource == "mandates" and one.mandate == mandate)
    payments = tuple(sorted(_fold_payments(known), key=lambda one: one.id))
    fees = [one for one in payments if one.kind == "fee"]
    fee = max(fees, key=lambda one: (one.status in _PAID, one.updated_at, one.id), default=None)
    subscription = _find_last(one for one in known if one.resource == "subscriptions")
    paid_before = {
        one.payment for one in known if one.resource == "payments" and one.action in _PAID
    }
    return PaymentState(
        mandate=mandate,
        mandate_authorised=bool(authorised) and (ends is None or ends.action not in _ENDED),
        fee_status=fee.status if fee else None,
        fee_paid=fee is not None and fee.status in _PAID,
        was_complete=bool(authorised) and any(one.id in paid_before for one in fees),
        subscription=subscription.subscription if subscription else None,
        subscription_status=subscription.action if subscription else None,
        payments=payments,
        authorised_at=min((one.happened_at for one in authorised), default=None),
    )


def _fold_payments(events: frozenset[StoredEvent]) -> Iterable[PaymentRecord]:
    by_payment: dict[str, list[StoredEvent]] = {}
    for event in events:
        if event.payment is not None:
            by_payment.setdefault(event.payment, []).append(event)
    for payment, named in by_payment.items():
        last = _find_last(one for one in named if one.resource == "payments")
        if last is not None:
            first = datetime.fromtimestamp(min(one.happened_at for one in named), LONDON)
            is_month = any(one.subscription for one in named)
            yield PaymentRecord(
                id=payment,
                kind="month" if is_month else "fee",
                month=f"{first:%Y-%m}",
                status=last.action,
                updated_at=last.happened_at,
            )


def _authorises(event: StoredEvent) -> bool:
    return event.mandate is not None and event.kind in {
        "billing_requests.fulfilled",
        "mandates.active",
    }


def _find_last(events: Iterable[StoredEvent]) -> StoredEvent | None:
    return max(events, key=_moment, default=None)


def _moment(event: StoredEvent) -> tuple[float, int, str]:
    return event.happened_at, _rank(event) or 0, event.event_id


def _rank(event: StoredEvent) -> int | None:
    life = _LIVES.get(event.resource, ())
    if event.subject is None or event.action not in life:
        return None
    return life.index(event.action)
