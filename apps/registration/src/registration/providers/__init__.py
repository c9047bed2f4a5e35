"""Clients of the parties outside: payments, SMS, mail and addresses, over HTTP.

A client asks once. It ends in a value, in `Refused` (it did not happen) or in `Unanswered` (nobody
knows whether it happened). This room must never retry, must never log, and must never put personal
data into an exception or a `repr`.
"""

from registration.providers.address_book import Address, AddressBook
from registration.providers.connection import ProviderFailure, ProviderHealth, Refused, Unanswered
from registration.providers.messages import Mailer, SentMessage, SmsProvider
from registration.providers.payments import BillingRequest, PaymentProvider, Subscription
from registration.providers.webhooks import (
    MalformedWebhook,
    PaymentEvent,
    read_events,
    sign,
    verify,
)

__all__ = [
    "Address",
    "AddressBook",
    "BillingRequest",
    "Mailer",
    "MalformedWebhook",
    "PaymentEvent",
    "PaymentProvider",
    "ProviderFailure",
    "ProviderHealth",
    "Refused",
    "SentMessage",
    "SmsProvider",
    "Subscription",
    "Unanswered",
    "read_events",
    "sign",
    "verify",
]
