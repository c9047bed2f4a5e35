"""Encodes the items of the event log as JSON."""

from __future__ import annotations

from holdfast.event_log.stream_items import StreamItem
from holdfast.journal.encoding import to_json


def encode_item(item: StreamItem) -> bytes:
    """Return an item as JSON.

    >>> from holdfast.event_log.stream_items import TextItem
    >>> encode_item(TextItem("1.2.0f", "t1.i0.model", 0, "Hi"))[:40]
    b'{"type":"text","position":"1.2.0f","key"'
    """
    return to_json(item)
