"""The common part of all tools of a registration: how a call finishes an effect, once, and the record of a player.

The record is made from the answers of a conversation. This module must never call a provider, and must never write
the record: the tools do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from holdfast.tools import ToolContext, ToolError
from registration.club import journey
from registration.club.fees import choose_monthly_fee
from registration.club.progress import Effect, Progress
from registration.flow.conversations import (
    Change,
    Conversation,
    Move,
    change_conversation,
    load_conversation,
)
from registration.flow.parts import Parts
from registration.outbox.texts import make_link_token
from registration.settings import Settings
from registration.store.registrations import NewRegistration, Player, registration_id
from registration.store.transaction import Transaction

DONE = "done"
"""The result of a tool: the model learns the rest from its task."""

Outcome = Mapping[str, object]
Work = Callable[[Transaction, Progress], Outcome]


class ToolScope:
    """Changes conversations for tools.

    Args:
        parts: the parts that the tools work with.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    async def change(self, context: ToolContext, change: Change) -> str:
        """Change the conversation, once for each call. Raises DatabaseUnavailable."""
        move = Move(
            session=context.session or "",
            key=context.idempotency_key,
            turn=context.turn,
            now=self.parts.now(),
            message=str(context.metadata.get("message", "")),
        )
        await change_conversation(self.parts.database, move, change)
        return DONE

    async def find_progress(self, context: ToolContext, effect: Effect) -> Progress:
        """Return the progress in which an effect is pending.

        Raises:
            ToolError: the effect is not pending; nothing is to be done.
            DatabaseUnavailable: the progress cannot be read.
        """
        saved = await load_conversation(self.parts.database, context.session or "")
        if saved.progress is None or saved.progress.pending != effect:
            raise ToolError(f"{effect} is not pending")
        return saved.progress

    async def finish(self, context: ToolContext, effect: Effect, work: Work) -> str:
        """Finish an effect, with the rows that belong to it, in one transaction.

        Args:
            context: the call.
            effect: the effect; nothing happens if it is not pending any more.
            work: writes the rows and returns the outcome, as `club.outcomes` names it.

        Raises:
            DatabaseUnavailable: nothing was saved.
        """

        def change(tx: Transaction, before: Conversation) -> Conversation:
            if before.progress is None or before.progress.pending != effect:
                return before
            outcome = work(tx, before.progress)
            return Conversation(*journey.finish_effect(before.progress, effect, outcome))

        return await self.change(context, change)


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
