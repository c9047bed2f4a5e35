"""The texts of messages that are sent outside of the chat.

This module must never be called for a log: a text holds names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from registration.settings import Settings
from registration.store.registrations import Registration
from registration.store.secrets import derive_token

_LINK = (
    "Hi {parent}, {child}'s registration with {club} is almost complete. "
    "Please set up the payment here: {link}"
)
_REMINDER = (
    "Hi {parent}, a reminder from {club}: {child}'s registration is almost complete. "
    "It only needs the payment: {link}"
)
_LAST_REMINDER = (
    "Hi {parent}, {child}'s place at {club} is kept for 2 more days. "
    "Please finish the payment here: {link}"
)
_PAID = (
    "✅ Payment confirmed! {player}'s registration with {club} is now complete. "
    "Thank you, and welcome!"
)
_LAST_REMINDER_MAIL = """Hi {parent},

{child}'s registration with {club} is almost complete; only the payment is missing.
The place is kept for 2 more days:

{link}

If anything is unclear, simply reply to this e-mail.

{club}
"""
_NO_LINK = """A parent says in the chat that the SMS with the payment link did not come.

Registration: {id}
Team: {team} {age_group}

Please look at the office page, check the number, and send the link again.
"""
# By the name of the template that stands in a job.
SMS: Final[Mapping[str, str]] = {
    "chase_3": _REMINDER,
    "chase_5": _LAST_REMINDER,
    "paid": _PAID,
}
# The subject and the text.
MAIL: Final[Mapping[str, tuple[str, str]]] = {
    "chase_5": ("{child}'s registration: 2 days left to pay", _LAST_REMINDER_MAIL),
    "no_link": ("A parent did not get the payment link", _NO_LINK),
}
TO_CLUB: Final = frozenset({"no_link"})


def make_link(settings: Settings, registration: str) -> str:
    """Return the address of a registration's payment link, which never changes."""
    return f"{settings.public_address}/pay/{make_link_token(settings, registration)}"


def make_link_token(settings: Settings, registration: str) -> str:
    """Return the token in a payment link; it is not stored, only its hash."""
    return derive_token(settings.link_secret.reveal().encode(), "link", registration)


def make_link_message(settings: Settings, registration: str, answers: Mapping[str, object]) -> str:
    """Return the text of the message with the payment link.

    Args:
        settings: the club and its address.
        registration: the id of the registration.
        answers: the answers, with the names.
    """
    return _LINK.format(
        parent=_first(answers, "parent_name"),
        child=_first(answers, "child_name"),
        club=settings.club_name,
        link=make_link(settings, registration),
    )


def describe_payment(settings: Settings) -> str:
    """Return the text for the parent on the provider's page.

    It is the same whenever a payment is asked for again with its key.
    """
    return f"{settings.club_name}: signing-on fee"


def fill_text(template: str, settings: Settings, registration: Registration) -> str:
    """Return the text of a template with the names of a registration and its payment link."""
    return template.format(
        parent=_first(registration.answers, "parent_name"),
        child=registration.player_first,
        player=f"{registration.player_first} {registration.player_last}",
        club=settings.club_name,
        link=make_link(settings, registration.id),
        id=registration.id,
        team=registration.team,
        age_group=registration.age_group,
    )


def to_international(phone: str) -> str:
    """Return a UK mobile number as providers want it.

    >>> to_international("07700900123")
    '+447700900123'
    """
    return phone if phone.startswith("+") else f"+44{phone.removeprefix('0')}"


def _first(answers: Mapping[str, object], field: str) -> str:
    name = answers.get(field)
    return str(name.get("first", "")) if isinstance(name, Mapping) else ""
