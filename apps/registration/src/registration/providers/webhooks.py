"""Webhooks of the payment provider: the signature, and the events of a body."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from registration.providers.connection import UNREADABLE

SIGNATURE_HEADER = "Webhook-Signature"

_Id = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{1,200}$")]
_Text = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00]*$")]  # no database saves a NUL
_Word = Annotated[str, Meta(pattern=r"^[a-z_]{1,60}$")]


class MalformedWebhook(ValueError):
    """A body that is signed but is not a list of events."""


class PaymentEvent(Struct, frozen=True):
    """Something that happened at the payment provider.

    Args:
        id: equal ids are the same event, however often it arrives.
        resource: such as "billing_requests", "mandates", "payments" or "subscriptions".
        action: such as "fulfilled", "active", "confirmed" or "cancelled".
        created_at: when it happened.
        links: the ids of the objects it belongs to, such as `{"payment": "PM1", "billing_request": "BRQ1"}`.
        metadata: the metadata of the billing request.
        cause: why, such as "insufficient_funds", if there is a reason.
    """

    id: _Id
    resource: _Word
    action: _Word
    created_at: Annotated[datetime, Meta(tz=True)]
    links: Mapping[str, _Id] = {}
    metadata: Mapping[str, _Text] = {}
    cause: str | None = None


class WebhookBody(Struct, frozen=True):
    """The body of one webhook."""

    events: tuple[PaymentEvent, ...]


def sign(body: bytes, secret: str) -> str:
    """Return the signature of a body: HMAC-SHA256, in hexadecimal digits.

    >>> sign(b"{}", "secret")[:8]
    '77325902'
    """
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def verify(body: bytes, header: str | None, secret: str) -> bool:
    """Return whether a header signs a body, in a time that reveals nothing of the signature.

    >>> verify(b"{}", sign(b"{}", "secret"), "secret"), verify(b"{}", None, "secret")
    (True, False)
    """
    given = (header or "").strip().encode("utf-8", "replace")
    return bool(secret) and hmac.compare_digest(sign(body, secret).encode(), given)


def read_events(body: bytes) -> tuple[PaymentEvent, ...]:
    """Return the events of a body whose signature was verified.

    Raises:
        MalformedWebhook: it is not a list of events.
    """
    try:
        return msgspec.json.decode(body, type=WebhookBody).events
    except UNREADABLE:
        raise MalformedWebhook("the body is not a list of events") from None
