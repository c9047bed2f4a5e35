"""Replays the records of a run up to the end of one of its turns, for the result of that turn."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.effects import closed_key, turn_key
from holdfast.core.events import HistoryCompacted, SessionRewound, TurnOpened
from holdfast.core.machine import SessionMachine
from holdfast.journal.port import Record


def is_latest_turn(machine: SessionMachine, key: str) -> bool:
    """Whether no other turn and no change of the history came after this turn."""
    return turn_key(machine.turn) == key


def find_last_try(records: Sequence[Record], key: str) -> str:
    """Return the key of the last turn that tried a turn again, or of the turn itself.

    Args:
        records: the records of the run.
        key: the key of the turn.
    """
    for record in records:
        event = record.event
        if isinstance(event, TurnOpened | SessionRewound | HistoryCompacted):
            number = _parse_number(event.key)
            if number == _parse_number(key) + 1:
                if not isinstance(event, TurnOpened) or event.message is not None:
                    break
                key = event.key
    return key


def _parse_number(key: str) -> int:
    return int(key.removeprefix("t"))


def replay_turn(records: Sequence[Record], key: str) -> SessionMachine:
    """Return the machine as it was when a turn ended.

    Args:
        records: the records of the run.
        key: the key of the turn, which has ended.
    """
    machine = SessionMachine()
    end = closed_key(_parse_number(key))
    for record in records:
        machine.apply(record.event)
        if record.event.key == end:
            break
    return machine
