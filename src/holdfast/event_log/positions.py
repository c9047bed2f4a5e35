"""Positions: where a reader is in the event log of a session.

A position names a number of records, and within the reply that follows them a number of characters.
The digest of these characters says of which attempt they are: numbers of attempts begin again after a
crash, texts do not. So any process finds from the journal alone the items that a reader missed, and whether
the text that it has still counts.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec import Struct

from holdfast.core.errors import ConfigurationError

_FORM = re.compile(r"(0|[1-9]\d{0,15})(?:\.([1-9]\d{0,11})\.([0-9a-f]{12}))?")
_DIGEST_BYTES = 6


class Position(Struct, frozen=True):
    """A place in the event log of a session.

    Args:
        sequence: the number of records of the session before this place.
        offset: the number of characters of the reply in progress before this place.
        digest: the digest of these characters; "" if there are none.
    """

    sequence: int = 0
    offset: int = 0
    digest: str = ""

    def __str__(self) -> str:
        if not self.offset:
            return str(self.sequence)
        return f"{self.sequence}.{self.offset}.{self.digest}"


START = Position()
"""The place before the first record."""


def parse_position(text: str, argument: str = "after") -> Position:
    """Return the position that a text stands for.

    Args:
        text: a position that was sent before, such as "12" or "12.133.9f3ab2c411d0".
        argument: names the text in the error.

    Raises:
        ConfigurationError: it is not a position.

    >>> parse_position("12.133.9f3ab2c411d0")
    Position(sequence=12, offset=133, digest='9f3ab2c411d0')
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            argument,
            "is not a position of a stream",
            fix="Pass the position of the last item that you read, or leave it out",
        )
    sequence, offset, digest = found.groups()
    return Position(int(sequence), int(offset or 0), digest or "")


class TextDigest:
    """The digest of a text that grows."""

    __slots__ = ("_hash",)

    def __init__(self, text: str = "") -> None:
        self._hash = blake2b(_to_bytes(text), digest_size=_DIGEST_BYTES)

    def add(self, text: str) -> None:
        """Add text at the end."""
        self._hash.update(_to_bytes(text))

    def __str__(self) -> str:
        return self._hash.hexdigest()


_FIRST_BITS = 17
_BLOCK = 27
"""The bits of the numbers of one block of steps."""

_FLAT = 10
"""The bits of the steps whose numbers are equally far apart."""

_LAST = _BLOCK - _FLAT
"""The last block in which a number has room for a digest."""


def number_step(step: int) -> tuple[int, int]:
    """Return the number of a step in a stream whose numbers are below 2^31, and the bits that are free below it.

    The free bits have a digest of the text so far. They are the fewer the longer the text is: 17 in the first 2048
    steps, 11 after 65,536, and 3 after 16 million. So all numbers of 32 million steps are below 2^31.

    Args:
        step: the step, from 0.

    >>> number_step(0), number_step(3), number_step(2048), number_step(2**24)
    ((0, 17), (393216, 17), (268435456, 16), (2013265920, 3))
    """
    block = max(step.bit_length() - 1, _FLAT)
    block = min(block, _BLOCK)
    if block == _FLAT:
        return step << _FIRST_BITS, _FIRST_BITS
    bits = _BLOCK - block
    return ((block - _FLAT + 1) << _BLOCK) + ((step - (1 << block)) << bits), bits


def read_step(number: int) -> int:
    """Return the step of a number, whatever its free bits are.

    >>> [read_step(number_step(step)[0] + 1) for step in (0, 1023, 1024, 2048, 70_000)]
    [0, 1023, 1024, 2048, 70000]
    """
    block = number >> _BLOCK
    if block <= 1:
        return number >> _FIRST_BITS
    bits = max(_LAST + 1 - block, 0)
    first = 1 << (_BLOCK - bits)
    return first + ((number - (min(block, _LAST + 1) << _BLOCK)) >> bits)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def begins_with(text: str, position: Position) -> bool:
    """Whether a text begins with the characters that a reader at this position has.

    >>> begins_with("Hello", Position(3, 2, str(TextDigest("He"))))
    True
    >>> begins_with("Hallo", Position(3, 2, str(TextDigest("He"))))
    False
    """
    if len(text) < position.offset:
        return False
    return not position.offset or str(TextDigest(text[: position.offset])) == position.digest
