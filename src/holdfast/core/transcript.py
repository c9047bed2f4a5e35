"""The history of a run: append-only, and it remembers how its messages look on a wire.

A model call sends the whole history each time. Encoding it anew would make a turn cost more with
each iteration, so the encoded form of a message is made once per wire and kept here. This module
must never change a message, and must never know what the kept bytes mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from holdfast.core.messages import Message


class _Encoded:
    """The first `packed_count` messages as one piece, and one piece for each after them."""

    __slots__ = ("packed", "packed_count", "pieces")

    def __init__(self, packed: bytes = b"", packed_count: int = 0) -> None:
        self.packed = packed
        self.packed_count = packed_count
        self.pieces: list[bytes] = []

    def join(self) -> bytes:
        if not self.packed_count:
            return b",".join(self.pieces)
        return b",".join((self.packed, *self.pieces)) if self.pieces else self.packed


class Transcript(Sequence[Message]):
    """Messages in order. Only `append` and `truncate` change it; `fork` copies it cheaply.

    >>> from holdfast.core.messages import user
    >>> history = Transcript([user("Hello")])
    >>> branch = history.fork()
    >>> branch.append(user("Again"))
    >>> len(history), len(branch)
    (1, 2)
    """

    __slots__ = ("_encoded", "_messages")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = list(messages)
        self._encoded: dict[str, _Encoded] = {}

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self._messages.append(message)

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` messages."""
        del self._messages[length:]
        for key, kept in list(self._encoded.items()):
            if length < kept.packed_count:
                del self._encoded[key]
            else:
                del kept.pieces[length - kept.packed_count :]

    def fork(self) -> Transcript:
        """A copy that can go another way; the encoded prefix is shared."""
        other = Transcript(self._messages)
        for key, kept in self._encoded.items():
            count = kept.packed_count + len(kept.pieces)
            if kept.pieces:
                kept.packed, kept.packed_count = kept.join(), count
                kept.pieces.clear()
            other._encoded[key] = _Encoded(kept.packed, kept.packed_count)
        return other

    def encoded(self, key: str, encode: Callable[[Message], bytes]) -> bytes:
        """The comma-separated encoded messages; each message is encoded once per `key`.

        Args:
            key: names the wire and every setting that changes how a message looks on it.
            encode: one message to bytes; must depend on nothing but the message and the key, and
                must return at least one byte (a comma would otherwise be doubled).
        """
        kept = self._encoded.get(key)
        if kept is None:
            kept = self._encoded[key] = _Encoded()
        for message in self._messages[self.known(key) :]:
            kept.pieces.append(encode(message))
        return kept.join()

    def known(self, key: str) -> int:
        """How many messages, from the first, are encoded under `key` already."""
        kept = self._encoded.get(key)
        return 0 if kept is None else kept.packed_count + len(kept.pieces)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __repr__(self) -> str:
        return f"Transcript({len(self._messages)} messages)"
