"""The record of a player, made from what a conversation has collected.

This module must never write anything; the tools do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from registration.club.fees import choose_monthly_fee
from registration.club.progress import Progress
from registration.outbox.texts import make_link_token
from registration.settings import Settings
from registration.store.registrations import NewRegistration, Player, registration_id


def find_player_of(progress: Progress) -> Player:
    """Return the player that a conversation is about. It has a name and a date of birth by then."""
    name = cast("Mapping[str, str]", progress.answers["child_name"])
    code = progress.code
    born = cast("str", progress.answers["child_born"])
    return Player(code.season, code.team, code.age_group, name["first"], name["last"], born)


def find_registration_id(settings: Settings, progress: Progress) -> str:
    """Return the id of the record: that of the stored one, or always the same for one player."""
    if progress.registration is not None:
        return progress.registration
    return registration_id(_key_of(settings), find_player_of(progress))


def make_record(
    settings: Settings, session: str, progress: Progress, siblings: int
) -> NewRegistration:
    """Return the record of a conversation that has all answers.

    Args:
        settings: the secret of the ids.
        session: the id of the session.
        progress: the conversation.
        siblings: how many players have the same surname and the same parent's mobile.
    """
    code, identity = progress.code, find_registration_id(settings, progress)
    return NewRegistration(
        id=identity,
        session_id=session,
        type=code.kind,
        code=code.text,
        player=find_player_of(progress),
        answers=dict(progress.answers),
        payment_day=cast("int | None", progress.answers.get("payment_day")),
        fee_pence=progress.terms.fees.signing,
        monthly_pence=choose_monthly_fee(progress.terms.fees, sibling=siblings > 0),
        link_token=make_link_token(settings, identity),
    )


def _key_of(settings: Settings) -> bytes:
    return settings.link_secret.reveal().encode()
