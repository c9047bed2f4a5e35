"""Makes the records of a copy of a session: what was given to the original is not given to the copy.

An answer is for one session. So an answer to the original is refused by a copy, and a copy does not
remember what somebody allowed or denied for later calls. This matters most for a copy from
elsewhere, which could otherwise bring its own approvals: its open turns are closed, so that nothing
in it is left to do. This module must never change a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.effects import RunTool, effect_digest, interrupted_key
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    SessionRewound,
    SessionTitled,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.question_log import asked_key
from holdfast.core.session_state import Phase
from holdfast.journal.port import Record
from holdfast.resilience.system_clock import new_nonce
from holdfast.sessions.names import find_turn_number
from holdfast.sessions.session_history import Replay

_NUMBERED = (TurnOpened, SessionRewound, HistoryCompacted, SessionTitled)


def detach_answers(records: Sequence[Record]) -> list[Record]:
    """Return the records of a copy: open questions get a new binding, and no answer is remembered.

    Args:
        records: all records of the original run.
    """
    ended = {
        asked_key(record.event.key)
        for record in records
        if isinstance(record.event, QuestionAnswered | QuestionUnanswered)
    }
    return [_detach(record, ended) for record in records]


def _detach(record: Record, ended: set[str]) -> Record:
    event: Event = record.event
    if isinstance(event, QuestionAsked) and event.key not in ended:
        event = msgspec.structs.replace(event, nonce=new_nonce())
    elif isinstance(event, QuestionAnswered) and isinstance(event.answer, dict):
        once = {name: value for name, value in event.answer.items() if name != "remember"}
        is_permission = once.get("type") in ("approved", "denied")
        event = msgspec.structs.replace(event, answer=once) if is_permission else event
    return record if event is record.event else msgspec.structs.replace(record, event=event)


def close_open_turn(records: Sequence[Record], at: float) -> list[Record]:
    """Return the records of a run with the end of its last turn, if that has not ended.

    The turn is interrupted: its questions, answers and markers have no effect any more. Each of its
    calls without a result gets an error result that says that the call is in doubt, whatever the
    records say: the original may have run it, or may still run it. A turn that only had to be
    closed gets the end that it has planned.

    Args:
        records: all records of the run.
        at: when it is closed, in seconds since the epoch.
    """
    replay = Replay(records)
    for _ in records:
        replay.apply_next()
    machine, closed = replay.machine, list(records)
    if machine.phase is Phase.IDLE:
        return closed
    if machine.allows_event(TurnInterrupted):
        started = tuple(one.key for one in machine.pending_effects() if isinstance(one, RunTool))
        event = TurnInterrupted(interrupted_key(machine.turn), at, "imported", started)
        machine.apply(event)
        closed.append(Record(event))
    (end,) = machine.pending_effects()
    status, error = machine.status, machine.error
    closed.append(Record(TurnClosed(end.key, at, status, error), effect_digest(end)))
    return closed


def find_early_runs(session: str, runs: Mapping[str, Sequence[Record]]) -> list[str]:
    """List the runs of tools that belong to a turn that the session does not have.

    A later turn would take such a run for its own, with all that it brings.

    Args:
        session: the name of the session.
        runs: the records of the session and of the runs that belong to it.
    """
    last = sum(isinstance(record.event, _NUMBERED) for record in runs.get(session, ()))
    return [run for run in runs if find_turn_number(session, run) > last]
