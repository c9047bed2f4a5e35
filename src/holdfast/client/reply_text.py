"""`ReplyText`: the text of the reply in progress, as a reader should show it."""

from __future__ import annotations

from holdfast.event_log.stream_items import StreamItem, TextItem, WithdrawnItem


class ReplyText:
    """The text of the latest reply: `reply.add(item)` for each item of a stream.

    >>> from holdfast.event_log.stream_items import TextItem, WithdrawnItem
    >>> reply = ReplyText()
    >>> reply.add(TextItem("1.3.00", "t1.i0.model", 0, "Hal"))
    'Hal'
    >>> reply.add(WithdrawnItem("1", "t1.i0.model", "The connection was lost."))
    ''
    >>> reply.add(TextItem("1.5.00", "t1.i0.model", 0, "Hello"))
    'Hello'
    """

    def __init__(self) -> None:
        self.text = ""
        """The text to show."""

    def add(self, item: StreamItem) -> str:
        """Take an item, and return the text to show now."""
        if isinstance(item, TextItem):
            self.text = self.text[: item.offset] + item.text
        elif isinstance(item, WithdrawnItem):
            self.text = ""
        return self.text
