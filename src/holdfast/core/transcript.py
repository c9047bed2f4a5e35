"""The history of a run: append-only, and it remembers how its messages look on a wire.

A model call sends the whole history each time. Encoding it anew would make a turn cost more with
each iteration, so the encoded form of a message is made once per wire and kept here. Each turn
begins and ends with a copy of the history, so copies share all but its newest messages. This module
must never change a message, and must never know what the kept bytes mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

from holdfast.core.messages import Message

_MOST_PIECES = 256


class _Encoded:
    """The first `packed_count` messages as one piece, and one piece for each after them.

    Every piece but the first of all begins with its comma, so that a body is made by one join.
    """

    __slots__ = ("packed", "packed_count", "pieces")

    def __init__(self, packed: bytes, packed_count: int, pieces: list[bytes]) -> None:
        self.packed = packed
        self.packed_count = packed_count
        self.pieces = pieces

    @property
    def count(self) -> int:
        return self.packed_count + len(self.pieces)

    def add(self, piece: bytes) -> None:
        self.pieces.append(b"," + piece if self.count else piece)

    def pack(self) -> None:
        self.packed, self.packed_count = b"".join((self.packed, *self.pieces)), self.count
        self.pieces.clear()


class Transcript(Sequence[Message]):
    """Messages in order. Only `append` and `truncate` change it; `fork` copies it cheaply.

    >>> from holdfast.core.messages import user
    >>> history = Transcript([user("Hello")])
    >>> branch = history.fork()
    >>> branch.append(user("Again"))
    >>> len(history), len(branch)
    (1, 2)
    """

    __slots__ = ("_encoded", "_newest", "_shared")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        # Never changed in place: forks have the same list.
        self._shared: list[Message] = list(messages)
        self._newest: list[Message] = []
        self._encoded: dict[str, _Encoded] = {}

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self._newest.append(message)

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` messages."""
        if length < len(self._shared):
            self._shared = self._shared[:length]
        del self._newest[max(length - len(self._shared), 0) :]
        for key, kept in list(self._encoded.items()):
            if length < kept.packed_count:
                del self._encoded[key]
            else:
                del kept.pieces[length - kept.packed_count :]

    def fork(self) -> Transcript:
        """A copy that can go another way; the encoded prefix is shared."""
        if len(self._newest) > _MOST_PIECES:
            self._shared, self._newest = [*self._shared, *self._newest], []
        other = Transcript()
        other._shared, other._newest = self._shared, self._newest.copy()
        for key, kept in self._encoded.items():
            if len(kept.pieces) > _MOST_PIECES:
                kept.pack()
            other._encoded[key] = _Encoded(kept.packed, kept.packed_count, kept.pieces.copy())
        return other

    def encoded(
        self, key: str, encode: Callable[[Message], bytes], head: bytes = b"", tail: bytes = b""
    ) -> bytes:
        """The encoded messages with commas between them; each is encoded once per `key`.

        Args:
            key: names the wire and every setting that changes how a message looks on it.
            encode: one message to bytes; must depend on nothing but the message and the key, and
                must return at least one byte (a comma would otherwise be doubled).
            head: goes before the messages.
            tail: goes after them.
        """
        kept = self._encoded.get(key)
        if kept is None:
            kept = self._encoded[key] = _Encoded(b"", 0, [])
        new = kept.count - len(self._shared)
        for message in self._newest[new:] if new >= 0 else self[kept.count :]:
            kept.add(encode(message))
        return b"".join((head, kept.packed, *kept.pieces, tail))

    def known(self, key: str) -> int:
        """How many messages, from the first, are encoded under `key` already."""
        kept = self._encoded.get(key)
        return 0 if kept is None else kept.count

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if index == -1 and self._newest:
            return self._newest[-1]
        older = len(self._shared)
        if isinstance(index, slice):
            start, stop, stride = index.indices(len(self))
            if start >= older and stride > 0:
                return self._newest[start - older : max(stop - older, 0) : stride]
            return list(self)[index]
        if index < 0:
            index += len(self)
        if index < 0:
            raise IndexError("there is no message before the first")
        return self._shared[index] if index < older else self._newest[index - older]

    def __len__(self) -> int:
        return len(self._shared) + len(self._newest)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._shared, self._newest)

    def __repr__(self) -> str:
        return f"Transcript({len(self)} messages)"
