"""The kinds of jobs that the outbox holds. This module must never hold a handler."""

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
