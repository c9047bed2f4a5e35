"""Finds the last turn of a session and its state, from a few records."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.core.effects import closed_key
from holdfast.core.events import TurnClosed
from holdfast.core.question_log import ASKED
from holdfast.event_log.stream_items import SessionState
from holdfast.event_log.text_fold import turn_of_key
from holdfast.sessions.session_index import SessionIndex


class LastTurn(Struct, frozen=True):
    """The last turn of a session.

    Args:
        turn: its number; 0 if there is none.
        status: its state.
        questions: the keys of the open questions.
        records: the number of records of the session.
    """

    turn: int
    status: SessionState
    questions: tuple[str, ...] = ()
    records: int = 0


async def read_last_turn(
    journal: SessionIndex, session: str, *, is_driven: bool
) -> LastTurn | None:
    """Return the state of a session; None if the session does not exist.

    Args:
        journal: the journal.
        session: the session.
        is_driven: whether this process drives its last turn.
    """
    entries = await journal.find_runs(session, session)
    if not entries:
        return None
    keys = await journal.keys(session)
    if not entries[0].turn_open:
        return await _read_ended(journal, session, keys)
    turn, known = max(map(turn_of_key, keys), default=0), set(keys)
    now = (key for key in keys if key.endswith(ASKED) and turn_of_key(key) == turn)
    asked = (key.removesuffix(ASKED) for key in now)
    questions = tuple(key for key in asked if key not in known)
    state: SessionState = "waiting" if questions else "open"
    if is_driven or entries[0].leased:
        state = "running"
    return LastTurn(turn, state, questions, len(keys))


async def _read_ended(journal: SessionIndex, session: str, keys: Sequence[str]) -> LastTurn:
    """Return the state of a session whose last turn has ended, if it has one."""
    # A rewind or a compaction has a number and no keys below it.
    turn = max((turn_of_key(key) for key in keys if "." in key), default=0)
    for record in await journal.read_by_keys(session, [closed_key(turn)]) if turn else ():
        if isinstance(record.event, TurnClosed):
            return LastTurn(turn, record.event.status.value, (), len(keys))
    return LastTurn(turn, "idle", (), len(keys))
