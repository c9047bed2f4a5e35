"""The kinds of jobs that the outbox holds, and the keys under which a turn and the worker ask a provider.

A key follows from the registration alone, so the same thing is made once. This module must never hold a handler.
"""

from __future__ import annotations

from registration.store.photo_jobs import CHECK_PHOTO
from registration.store.webhooks import APPLY_PAYMENT_EVENT

__all__ = [
    "APPLY_PAYMENT_EVENT",
    "CHECK_PHOTO",
    "CREATE_SUBSCRIPTION",
    "KEEP_CONVERSATION",
    "REQUEST_PAYMENT",
    "SEND_MAIL",
    "SEND_PAYMENT_LINK",
    "SEND_SMS",
]

REQUEST_PAYMENT = "request_payment"
SEND_PAYMENT_LINK = "send_payment_link"
SEND_SMS = "send_sms"
SEND_MAIL = "send_mail"
CREATE_SUBSCRIPTION = "create_subscription"
KEEP_CONVERSATION = "keep_conversation"


def make_payment_key(registration: str) -> str:
    """Return the key of the payment request of a registration."""
    return f"registration/{registration}/payment"


def make_link_key(registration: str) -> str:
    """Return the key of the message with the payment link of a registration."""
    return f"registration/{registration}/sms"
