"""What all tools of a registration share: how a call finishes an effect, once.

This module must never call a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.tools import ToolContext, ToolError
from registration.club import journey
from registration.club.progress import Effect, Progress
from registration.flow.conversations import (
    Change,
    Conversation,
    Move,
    change_conversation,
    load_conversation,
)
from registration.flow.parts import Parts
from registration.store.transaction import Transaction

DONE = "done"
"""What a tool returns: the model learns the rest from what it is asked to say."""

Outcome = Mapping[str, object]
Work = Callable[[Transaction, Progress], Outcome]


class ToolScope:
    """Changes conversations for tools.

    Args:
        parts: what the tools work with.
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
