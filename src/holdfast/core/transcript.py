"""The history of a run: append-only, with the encoded form of its messages.

Each model call sends the whole history. Encoding all of it each time would make every iteration more
expensive than the one before, so a message is encoded once per wire and the bytes are stored here.
Each turn begins and ends with a copy of the history, so copies share all but the newest messages.
This module must never change a message, and must never interpret the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

from msgspec import Struct

from holdfast.core.messages import Message, ToolCall

_MOST_PIECES = 256


class Form(Struct, frozen=True):
    """How the messages of a history are encoded for a wire.

    Args:
        key: names the wire and everything that changes the encoding of a message.
        encode: encodes one message; it must depend only on the message and the key. Empty bytes
            leave the message out.
        skip: how many messages at the beginning are left out; the key must contain it.
        encode_last: encodes the last message that is not left out. The result is not stored.
    """

    key: str
    encode: Callable[[Message], bytes]
    skip: int = 0
    encode_last: Callable[[Message], bytes] | None = None


class _Encoded:
    """The first `packed_count` messages as one piece of bytes, and one piece for each later message.

    Every piece but the very first begins with a comma, so that one join makes a body. The piece of a
    message that is left out is empty.
    """

    __slots__ = ("has_content", "packed", "packed_count", "pieces")

    def __init__(self) -> None:
        self.packed = b""
        self.packed_count = 0
        self.pieces: list[bytes] = []
        self.has_content = False

    def count(self) -> int:
        return self.packed_count + len(self.pieces)

    def fork(self) -> _Encoded:
        if len(self.pieces) > _MOST_PIECES:
            self.pack_pieces()
        other = _Encoded()
        other.packed, other.packed_count = self.packed, self.packed_count
        other.pieces = self.pieces.copy()
        other.has_content = self.has_content
        return other

    def add_piece(self, piece: bytes) -> None:
        self.pieces.append(b"," + piece if piece and self.has_content else piece)
        self.has_content = self.has_content or bool(piece)

    def truncate_pieces(self, length: int) -> None:
        del self.pieces[length - self.packed_count :]
        self.has_content = bool(self.packed) or any(self.pieces)

    def pack_pieces(self) -> None:
        self.packed, self.packed_count = b"".join((self.packed, *self.pieces)), self.count()
        self.pieces.clear()


class _SharedMessages:
    """The messages that forks share; they never change. The ids of their calls are collected once."""

    __slots__ = ("_ids", "messages")

    def __init__(self, messages: list[Message], ids: frozenset[str] | None = None) -> None:
        self.messages = messages
        self._ids = ids

    @property
    def call_ids(self) -> frozenset[str]:
        if self._ids is None:
            self._ids = _collect_call_ids(self.messages)
        return self._ids

    def extended_by(self, messages: list[Message]) -> _SharedMessages:
        ids = None if self._ids is None else self._ids | _collect_call_ids(messages)
        return _SharedMessages([*self.messages, *messages], ids)


def _collect_call_ids(messages: Iterable[Message]) -> frozenset[str]:
    return frozenset(
        part.id
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolCall)
    )


class Transcript(Sequence[Message]):
    """A sequence of messages. Only `append` and `truncate` change it; `fork` copies it cheaply.

    >>> from holdfast.core.messages import user
    >>> history = Transcript([user("Hello")])
    >>> branch = history.fork()
    >>> branch.append(user("Again"))
    >>> len(history), len(branch)
    (1, 2)
    """

    __slots__ = ("_encoded", "_newest", "_older")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._older = _SharedMessages(list(messages))
        self._newest: list[Message] = []
        self._encoded: dict[str, _Encoded] = {}

    def append(self, message: Message) -> None:
        """Append one message."""
        self._newest.append(message)

    @property
    def encoded_size(self) -> int:
        """The number of bytes of the encoded messages that are kept."""
        return sum(len(one.packed) + sum(map(len, one.pieces)) for one in self._encoded.values())

    def truncate(self, length: int) -> None:
        """Drop everything after the first `length` messages."""
        older = self._older.messages
        if length < len(older):
            self._older = _SharedMessages(older[:length])
        # A new list, because a snapshot may have the old one.
        self._newest = self._newest[: max(length - len(older), 0)]
        for key, encoded in list(self._encoded.items()):
            if length < encoded.packed_count:
                del self._encoded[key]
            else:
                encoded.truncate_pieces(length)

    def fork(self) -> Transcript:
        """Return an independent copy that shares the encoded prefix."""
        if len(self._newest) > _MOST_PIECES:
            self._older, self._newest = self._older.extended_by(self._newest), []
        other = Transcript()
        other._older, other._newest = self._older, self._newest.copy()
        other._encoded = {key: encoded.fork() for key, encoded in self._encoded.items()}
        return other

    def snapshot(self) -> Sequence[Message]:
        """Return the messages that there are now; it copies nothing."""
        return TranscriptSnapshot(self, self._older.messages, self._newest)

    def encode_messages(self, form: Form, head: bytes = b"", tail: bytes = b"") -> bytes:
        """Return the encoded messages, separated by commas; each is encoded once per `form.key`.

        Args:
            form: how the messages are encoded.
            head: bytes before the messages.
            tail: bytes after them.
        """
        key, encode = form.key, form.encode
        encoded = self._encoded.get(key)
        if encoded is None:
            encoded = self._encoded[key] = _Encoded()
        known = encoded.count()
        new = known - len(self._older.messages)
        messages = self._newest[new:] if new >= 0 else self[known:]
        for at, message in enumerate(messages, known):
            encoded.add_piece(b"" if at < form.skip else encode(message))
        if form.encode_last is None:
            return b"".join((head, encoded.packed, *encoded.pieces, tail))
        return b"".join((head, *self._pieces_with_last(encoded, encode, form.encode_last), tail))

    def _pieces_with_last(
        self,
        encoded: _Encoded,
        encode: Callable[[Message], bytes],
        encode_last: Callable[[Message], bytes],
    ) -> Iterator[bytes | memoryview]:
        for back, piece in enumerate(reversed(encoded.pieces), 1):
            if piece:
                comma = piece[:1] if piece[:1] == b"," else b""
                return chain(
                    (encoded.packed,), encoded.pieces[:-back], (comma, encode_last(self[-back]))
                )
        for message in reversed(self[: encoded.packed_count]):
            if plain := encode(message):
                # A view: copying a long history would cost more than all other work here.
                return iter((memoryview(encoded.packed)[: -len(plain)], encode_last(message)))
        return iter((encoded.packed,))

    def encoded_count(self, key: str) -> int:
        """Return how many messages, from the first on, are already encoded under `key`."""
        encoded = self._encoded.get(key)
        return 0 if encoded is None else encoded.count()

    def has_call(self, ids: frozenset[str], before: int) -> bool:
        """Whether one of the first `before` messages has a tool call with one of these ids.

        This is cheap when `before` is near the end, whatever the number of messages.
        """
        older = self._older.messages
        if before < len(older):
            return not _collect_call_ids(older[:before]).isdisjoint(ids)
        newest = _collect_call_ids(self._newest[: before - len(older)])
        return not (self._older.call_ids.isdisjoint(ids) and newest.isdisjoint(ids))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        messages = self._older.messages
        older = len(messages)
        if not older or (index == -1 and self._newest):
            return self._newest[index]
        if isinstance(index, slice):
            first = index.start
            if index.stop is index.step is None and first is not None and first >= older:
                return self._newest[first - older :]
            start, stop, stride = index.indices(len(self))
            if stride != 1:
                return list(self)[index]
            newest = self._newest[max(start - older, 0) : max(stop - older, 0)]
            return newest if start >= older else messages[start:stop] + newest
        if index < 0:
            index += len(self)
        if index < 0:
            raise IndexError("there is no message before the first")
        return messages[index] if index < older else self._newest[index - older]

    def __len__(self) -> int:
        return len(self._older.messages) + len(self._newest)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._older.messages, self._newest)

    def __repr__(self) -> str:
        return f"Transcript({len(self)} messages)"


class TranscriptSnapshot(Sequence[Message]):
    """The messages that a transcript has now, without those that are appended later.

    >>> from holdfast.core.messages import user
    >>> history = Transcript([user("Hello")])
    >>> snapshot = history.snapshot()
    >>> history.append(user("Again"))
    >>> len(history), len(snapshot)
    (2, 1)
    """

    __slots__ = ("_length", "_newest", "_older", "transcript")

    def __init__(self, transcript: Transcript, older: list[Message], newest: list[Message]) -> None:
        self.transcript = transcript
        # The transcript only appends to these lists, and replaces them to drop messages.
        self._older, self._newest = older, newest
        self._length = len(older) + len(newest)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"there is no message {index}")
        older = len(self._older)
        return self._older[position] if position < older else self._newest[position - older]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return islice(chain(self._older, self._newest), self._length)

    def __repr__(self) -> str:
        return f"TranscriptSnapshot({self._length} messages)"
