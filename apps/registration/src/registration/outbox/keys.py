"""The keys under which a turn and the worker ask a provider for the same thing.

They follow from the registration alone, so whoever asks, and whenever, it is made once.
"""

from __future__ import annotations


def make_payment_key(registration: str) -> str:
    """Return the key of the payment request of a registration."""
    return f"registration/{registration}/payment"


def make_link_key(registration: str) -> str:
    """Return the key of the message with the payment link of a registration."""
    return f"registration/{registration}/sms"
