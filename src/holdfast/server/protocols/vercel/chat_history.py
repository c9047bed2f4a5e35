"""The messages of a whole chat, from its records. This module is pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.journal.port import Record
from holdfast.server.protocols.display.display_items import UserShown
from holdfast.server.protocols.display.session_display import show_records
from holdfast.server.protocols.session_turns import user_message_id
from holdfast.server.protocols.vercel.projection import VercelProjection
from holdfast.server.protocols.vercel.ui_messages import MessageBuilder, word_user


def read_history(
    session: str, records: Sequence[Record], static: Collection[str] = ()
) -> list[dict[str, object]]:
    """Return the messages of the turns that count, as a client has them.

    Args:
        session: the session.
        records: all its records.
        static: the tools that the agent always has.
    """
    messages: list[dict[str, object]] = []
    projection, builder = VercelProjection(session, 0), MessageBuilder()
    for turn, item, position in show_records(session, records):
        if isinstance(item, UserShown):
            projection, builder = VercelProjection(session, turn, static), MessageBuilder()
            builder.add([projection.start()])
            name = user_message_id(session, turn, item.metadata)
            messages += [word_user(item.message, name), builder.build()]
        builder.add(projection.feed(item, position))
    return messages
