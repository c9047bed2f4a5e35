"""The messages by which processes tell each other what their runs show.

A message fits into a NOTIFY of PostgreSQL. This module must never send one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from holdfast.event_log.live.live_run import Entry
from holdfast.event_log.positions import Position, TextDigest
from holdfast.event_log.stream_items import EventItem, TextItem
from holdfast.journal.encoding import to_json
from holdfast.journal.live_link import LARGEST_MESSAGE

_LONGEST_TEXT = 1_000  # characters; a character takes at most 6 bytes
_ROOM = LARGEST_MESSAGE - 1_200  # for the rest of a message, with the name of the session


class _Message(Struct, frozen=True, array_like=True, tag=True):
    sender: str
    tenant: str
    session: str


class Present(_Message, frozen=True, array_like=True, tag="p"):
    """There is such a process. It is of no tenant."""


class Wanted(_Message, frozen=True, array_like=True, tag="w"):
    """A process has readers of a run that it does not drive."""


class Woken(_Message, frozen=True, array_like=True, tag="c"):
    """Something about a session has changed."""


class ActAsked(_Message, frozen=True, array_like=True, tag="a"):
    """There is an act for the driver of a run."""


class ActDone(_Message, frozen=True, array_like=True, tag="d"):
    """An act has a result."""

    act: str


class LimitsTold(_Message, frozen=True, array_like=True, tag="l"):
    """How a process uses the endpoints of models. It is of no tenant."""

    uses: tuple[Raw, ...]


class RunBegun(_Message, frozen=True, array_like=True, tag="b"):
    """What a run shows at this moment: `size` characters, which follow in `TextTold`.

    `run` names the run in progress, and `number` is the number of the next `ItemsShown`.
    """

    run: str
    number: int
    sequence: int
    key: str
    attempt: int
    size: int


class TextTold(_Message, frozen=True, array_like=True, tag="t"):
    """A piece of what a run shows at the moment of its `RunBegun`."""

    run: str
    position: str
    item: Raw


class ItemsShown(_Message, frozen=True, array_like=True, tag="i"):
    """What a run shows next: positions and items; an item that is null is a record of the journal."""

    run: str
    number: int
    items: tuple[tuple[str, Raw], ...]


class RunEnded(_Message, frozen=True, array_like=True, tag="e"):
    """A run shows nothing more."""

    run: str


LinkMessage: TypeAlias = (
    Present
    | Wanted
    | Woken
    | ActAsked
    | ActDone
    | LimitsTold
    | RunBegun
    | TextTold
    | ItemsShown
    | RunEnded
)

_decoder: msgspec.json.Decoder[LinkMessage] = msgspec.json.Decoder(LinkMessage)


def encode_message(message: LinkMessage) -> str:
    """Return a message as text."""
    return to_json(message).decode()


def decode_message(text: str) -> LinkMessage | None:
    """Return the message; None for one of another version."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None


def split_text(item: TextItem, sequence: int, digest: TextDigest) -> Iterator[Entry]:
    """Yield a text in pieces that fit into messages.

    Args:
        item: the text.
        sequence: the number of records before the reply.
        digest: of the text of the reply before the item; the item is added to it.
    """
    for start in range(0, len(item.text), _LONGEST_TEXT):
        piece, offset = item.text[start : start + _LONGEST_TEXT], item.offset + start
        digest.add(piece)
        place = Position(sequence, offset + len(piece), str(digest))
        part = TextItem(str(place), item.key, offset, piece, item.attempt)
        yield Entry(part, place, to_json(part))


def pack_entries(entries: Iterable[Entry]) -> Iterator[tuple[tuple[str, Raw], ...]]:
    """Yield entries in groups that fit into messages. A notice that is too large is left out.

    Args:
        entries: the entries; long texts were split before.
    """
    group: list[tuple[str, Raw]] = []
    size = 0
    for entry in entries:
        is_event = isinstance(entry.item, EventItem)
        encoded = b"null" if is_event else entry.encoded
        if len(encoded) > _ROOM:
            continue
        if size + len(encoded) > _ROOM:
            yield tuple(group)
            group, size = [], 0
        group.append((str(entry.position), Raw(encoded)))
        size += len(encoded) + 60
    if group:
        yield tuple(group)
