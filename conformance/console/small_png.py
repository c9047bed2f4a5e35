"""Makes the picture of a page small: at most 256 colours, which a page has nearly."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def shrink_png(path: Path) -> None:
    """Write an RGB picture again with a palette of its most frequent colours."""
    content = path.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
    if (depth, kind) != (8, 2):
        return
    rows = _read_rows(content, width, height)
    pixels = [tuple(row[at : at + 3]) for row in rows for at in range(0, len(row), 3)]
    palette = [colour for colour, _ in Counter(pixels).most_common(256)]
    places: dict[tuple[int, ...], int] = {colour: at for at, colour in enumerate(palette)}
    for colour in set(pixels) - places.keys():
        places[colour] = min(range(len(palette)), key=lambda at: _distance(palette[at], colour))
    indexes = bytes(map(places.__getitem__, pixels))
    body = b"".join(b"\0" + indexes[at : at + width] for at in range(0, len(indexes), width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", colours),
        (b"IDAT", zlib.compress(body, 9)),
        (b"IEND", b""),
    )
    path.write_bytes(_SIGNATURE + b"".join(_make_chunk(*chunk) for chunk in chunks))


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _make_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _read_rows(content: bytes, width: int, height: int) -> list[bytearray]:
    """Return the rows of pixels, without their filters."""
    data, at = b"", 8
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + size]
        at += size + 12
    raw, stride = zlib.decompress(data), 3 * width
    rows = [bytearray(stride)]
    for number in range(height):
        start = number * (stride + 1)
        rows.append(
            _undo_filter(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), rows[-1])
        )
    return rows[1:]


def _undo_filter(kind: int, row: bytearray, above: bytearray) -> bytearray:
    for at in range(len(row)):
        left = row[at - 3] if at >= 3 else 0
        corner = above[at - 3] if at >= 3 else 0
        guess = (0, left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))[kind]
        row[at] = (row[at] + guess) & 255
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))
