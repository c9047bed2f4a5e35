"""Who may see a saved record: a limit for guesses at a player's parent, over all conversations.

This module must never store what was guessed, nor whose record it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from registration.club import journey
from registration.club.corrections import names_person
from registration.club.progress import Progress, Reading
from registration.settings import Settings
from registration.store.identity_tries import count_try, forget_tries
from registration.store.registrations import normalise_name
from registration.store.secrets import derive_token
from registration.store.transaction import Transaction

MOST_TRIES: Final = 10
"""Guesses at one player in a day."""


def take_identity(
    tx: Transaction, settings: Settings, progress: Progress, reading: Reading, now: float
) -> journey.Answered | None:
    """Return what follows from one guess too many; None if the answer is to be taken as usual.

    Args:
        tx: the transaction.
        settings: the secret of the key.
        progress: the state before.
        reading: what the message says.
        now: seconds since the epoch.
    """
    if progress.further not in {"identity", "resume"} or not reading.understood:
        return None
    if reading.value is None or not names_person(reading.value):
        return None
    if count_try(tx, _make_key(settings, progress), now) <= MOST_TRIES:
        return None
    return journey.refuse_identity(progress)


def forget_guesses(tx: Transaction, settings: Settings, before: Progress, after: Progress) -> None:
    """Begin to count again if the parent was known."""
    was_known = before.further == "identity" and after.further is None
    was_resumed = before.further == "resume" and after.registration is not None
    if was_known or was_resumed:
        forget_tries(tx, _make_key(settings, before))


def _make_key(settings: Settings, progress: Progress) -> str:
    code = progress.code
    name = cast("Mapping[str, str]", progress.answers.get("child_name", {}))
    first, last = code.first or name.get("first", ""), code.last or name.get("last", "")
    who = (normalise_name(first), normalise_name(last))
    secret = settings.link_secret.reveal().encode()
    return derive_token(secret, "identity", code.season, code.team, *who)
