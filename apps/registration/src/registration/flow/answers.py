"""The answer to a message, saved when its turn ends, whoever waits for it.

This module must never save the answer of a turn that failed: such a message is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast import Status
from holdfast.middleware import AfterTurn, Middleware
from registration.flow.conversations import read_conversation
from registration.flow.next_action import TurnNotes
from registration.flow.parts import Parts
from registration.store import DatabaseUnavailable, Transaction
from registration.store.messages import save_answer

_log = logging.getLogger("registration")


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to a message.

    Args:
        response: the text for the parent.
        session_id: the session.
        status: "ok"; "degraded" if the model was away.
        last_agent: who answered.
        routine_number: the step; only of a new registration.
        turn: the turn that asked the open question; a message names it as `answers_turn`.
    """

    response: str
    session_id: str
    status: Literal["ok", "degraded"]
    last_agent: str
    routine_number: int | None = None
    turn: int | None = None

    def __repr__(self) -> str:
        return f"Answer(session_id={self.session_id!r}, status={self.status!r})"


def make_answer(
    session: str, agent: str, output: Mapping[str, object], text: str, *, degraded: bool = False
) -> Answer:
    """Return the answer of a turn.

    Args:
        session: the id of the session.
        agent: the name of the agent.
        output: the output of a registration; empty for other agents.
        text: the text of the reply, where there is no output.
        degraded: whether the model was away.
    """
    routine = output.get("routine_number")
    return Answer(
        response=str(output.get("agent_final_response", text)),
        session_id=session,
        status="degraded" if degraded else "ok",
        last_agent=agent,
        routine_number=routine if isinstance(routine, int) else None,
    )


class SaveAnswers(Middleware):
    """Saves the answer to a message when its turn has completed.

    Args:
        parts: the database.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def after_turn(self, context: AfterTurn[Any]) -> None:
        """Save the answer; without it, the journal has the reply all the same."""
        message = context.metadata.get("message")
        if context.status is not Status.COMPLETED or not isinstance(message, str):
            return
        session, degraded = context.session or "", context.shared(TurnNotes).degraded
        self._parts.counts.add("turns_degraded" if degraded else "turns_ok")
        answer = make_answer(
            session,
            context.agent,
            _read_output(context.text),
            context.text,
            degraded=degraded,
        )

        def save(tx: Transaction) -> None:
            turn = read_conversation(tx, session).turn
            saved = msgspec.to_builtins(msgspec.structs.replace(answer, turn=turn))
            save_answer(tx, session, message, saved)

        try:
            await self._parts.database.transact(save)
        except DatabaseUnavailable as error:
            _log.warning("session %s: the answer was not saved: %s", session, error)


def _read_output(text: str) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError):
        return {}
