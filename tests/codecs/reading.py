"""Reads a body with a codec to its end, whole or in pieces, and shares strategies for odd bodies."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.wire import Codec
from holdfast.core.deltas import Delta

Body: TypeAlias = bytes | Iterable[bytes]
Read: TypeAlias = Callable[[bytes], AssembledReply]

THOROUGH = settings(max_examples=40)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def read_deltas(
    codec: Codec, body: Body, content_type: str = "", provider: str = ""
) -> list[Delta]:
    """Return the deltas of a body."""
    decoder = codec.make_decoder(content_type, provider)
    pieces = [body] if isinstance(body, bytes) else body
    return [delta for piece in pieces for delta in decoder.feed(piece)] + [*decoder.close()]


def assemble_deltas(deltas: Iterable[Delta], wire: str, profile: EndpointProfile) -> AssembledReply:
    """Return the reply that deltas add up to."""
    assembler = Assembler(profile, wire)
    for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def check_any_bytes(read: Read, data: bytes) -> None:
    """Read arbitrary bytes as a body and as an event."""
    read(data)
    read(b"data: " + data + b"\n\n")


def check_damage(read: Read, good: bytes, at: int, damage: bytes) -> None:
    """Read a body with some bytes replaced, and one that ends with other bytes."""
    read(good[:at] + damage + good[at + len(damage) :])
    read(good[:at] + damage)


def check_deep_nesting(read: Read, field: bytes) -> None:
    """Read JSON that is nested deeper than a parser can follow; it is never a reply."""
    deep = b"[" * 200_000
    whole = b'{"' + field + b'":' + deep + b"]" * 200_000 + b"}"
    for body in (deep, b"data: " + deep + b"\n\n", whole):
        assert read(body).error is not None


def as_events(values: Iterable[object]) -> bytes:
    """Return JSON values as a stream of events."""
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def decodes_in_linear_time(codec: Codec, make: Callable[[int], bytes], most: int) -> bool:
    """Whether decoding the body that `make` returns for a number takes time in proportion to it."""

    def seconds(count: int) -> float:
        body = make(count)
        pieces = [body[at : at + 4096] for at in range(0, len(body), 4096)]
        begun = time.process_time()
        read_deltas(codec, pieces)
        return time.process_time() - begun

    return is_linear(seconds, most // 8, most)
