"""Emulated providers on loopback: payments, SMS, mail and addresses, which fail by script or by chance.

They speak the APIs that `registration.providers` uses, without keys and without a network. A file
keeps their records. This room must never be used by the service itself: the service reaches its
providers over HTTP, whether they are emulated or real.
"""

from registration.emulators.address_emulator import AddressEmulator
from registration.emulators.courier import WebhookPlan
from registration.emulators.emulated_providers import EmulatedProviders, run_emulators
from registration.emulators.faults import CHAOS, Fault, Faults
from registration.emulators.inboxes import InboxMessage, MailEmulator, SmsEmulator
from registration.emulators.payment_emulator import PaymentEmulator
from registration.emulators.serving import serve

__all__ = [
    "CHAOS",
    "AddressEmulator",
    "EmulatedProviders",
    "Fault",
    "Faults",
    "InboxMessage",
    "MailEmulator",
    "PaymentEmulator",
    "SmsEmulator",
    "WebhookPlan",
    "run_emulators",
    "serve",
]
