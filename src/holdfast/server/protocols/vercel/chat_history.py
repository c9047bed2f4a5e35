"""The messages of a whole chat, from its records. This module is pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.core.events import TurnOpened
from holdfast.journal.port import Record
from holdfast.server.event_log.positions import Position
from holdfast.server.event_log.text_fold import TextFold, turn_of_key
from holdfast.server.protocols.display.display_fold import DisplayFold
from holdfast.server.protocols.display.display_items import UserShown
from holdfast.server.protocols.session_turns import MESSAGE_ID
from holdfast.server.protocols.vercel.projection import VercelProjection, message_id
from holdfast.server.protocols.vercel.ui_messages import MessageBuilder, word_user
from holdfast.sessions.session_history import fold_history


def read_history(
    session: str, records: Sequence[Record], static: Collection[str] = ()
) -> list[dict[str, object]]:
    """Return the messages of the turns that count, as a client has them.

    Args:
        session: the session.
        records: all its records.
        static: the tools that the agent always has.
    """
    counted = {point.number for point in fold_history(records).points if point.counts}
    messages: list[dict[str, object]] = []
    turn, text = 0, TextFold()
    fold, projection, builder = DisplayFold(session), VercelProjection(session, 0), MessageBuilder()
    for sequence, record in enumerate(records):
        event = record.event
        if isinstance(event, TurnOpened):
            turn = turn_of_key(event.key)
            text, fold = TextFold(Position(sequence)), DisplayFold(session)
            projection, builder = VercelProjection(session, turn, static), MessageBuilder()
            builder.add([projection.start()])
        if turn not in counted or turn_of_key(event.key) != turn:
            continue
        for item in text.feed(event):
            for shown in fold.feed(item):
                if isinstance(shown, UserShown):
                    name = shown.metadata.get(MESSAGE_ID) or f"{message_id(session, turn)}.user"
                    messages.append(word_user(shown.message, str(name)))
                    messages.append(builder.build())
                builder.add(projection.feed(shown, fold.position))
    return messages
