"""Clients of the parties outside: payments, SMS, mail and addresses, over HTTP.

A client asks once. It ends in a value, in `Refused` (it did not happen) or in `Unanswered` (nobody
knows whether it happened). This room must never retry, must never log, and must never put what
belongs to a person into an exception or a `repr`.
"""

from registration.providers.address_book import Address, AddressBook
from registration.providers.connection import ProviderHealth
from registration.providers.failures import ProviderFailure, Refused, Unanswered
from registration.providers.mailer import Mailer
from registration.providers.messages import SentMessage
from registration.providers.payments import BillingRequest, PaymentProvider, Subscription
from registration.providers.sms import SmsProvider
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
