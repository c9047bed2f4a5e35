"""What the records of a whole session show, turn by turn. This module is pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.events import TurnOpened
from holdfast.event_log.positions import Position
from holdfast.event_log.text_fold import TextFold, turn_of_key
from holdfast.journal.port import Record
from holdfast.server.protocols.display.display_fold import DisplayFold
from holdfast.server.protocols.display.display_items import DisplayItem
from holdfast.sessions.session_history import fold_history


def show_records(session: str, records: Sequence[Record]) -> Iterator[tuple[int, DisplayItem, str]]:
    """Yield what the turns that count show, each with its number and the place after it.

    Args:
        session: the session.
        records: all its records.
    """
    counted = {point.number for point in fold_history(records).points if point.counts}
    turn, text, fold = 0, TextFold(), DisplayFold(session)
    for sequence, record in enumerate(records):
        event = record.event
        if isinstance(event, TurnOpened):
            turn = turn_of_key(event.key)
            text, fold = TextFold(Position(sequence)), DisplayFold(session)
        if turn in counted and turn_of_key(event.key) == turn:
            for item in text.feed(event):
                for shown in fold.feed(item):
                    yield turn, shown, fold.position
