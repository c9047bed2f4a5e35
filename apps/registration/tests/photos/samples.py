"""Pictures for tests: good ones, odd ones, and bombs of a few kilobytes."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from io import BytesIO
from typing import Any

from PIL import Image

GPS = 0x8825


def draw(width: int = 600, height: int = 800, *, pitch: bool = False) -> Image.Image:
    """A picture with a light face before a dark wall; of a pitch, one that is green."""
    image = Image.new("RGB", (width, height), (30, 160, 40) if pitch else (60, 60, 80))
    face = (40, 200, 60) if pitch else (220, 180, 160)
    image.paste(face, (width // 4, height // 5, 3 * width // 4, 4 * height // 5))
    return image


def write(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    """The file of a picture."""
    written = BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def photo(mark: int = 0, *, pitch: bool = False) -> bytes:
    """A JPEG; another mark makes another file."""
    image = draw(pitch=pitch)
    image.paste((mark % 256, mark // 256, 0), (0, 0, 50, 50))
    return write(image)


def photo_with_place() -> bytes:
    """A JPEG that lies on its side, as a phone stores it, with its position in three places."""
    image = draw(800, 600)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    exif[0x010F] = "SECRETPHONE"
    exif.get_ifd(GPS).update({1: "N", 2: (51.0, 30.0, 0.0), 29: "SECRETDAY"})
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a exif:GPSLatitude="SECRETXMP"/></x:xmpmeta>'
    return write(image, exif=exif, comment=b"SECRETCOMMENT", xmp=xmp)


@cache
def bomb(width: int = 20_000, height: int = 20_000) -> bytes:
    """A PNG of some kilobytes, and by default 400 million pixels, which are zeros."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    squeeze = zlib.compressobj(9)
    row = bytes(width // 8 + 1)
    pixels = b"".join(squeeze.compress(row) for _ in range(height)) + squeeze.flush()
    chunks = [(b"IHDR", head), (b"IDAT", pixels), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks))


def full_bomb(size: int) -> bytes:
    """A PNG of `size` bytes of which the text is the most, and 400 million pixels."""
    start = bomb()
    rest = _chunk((b"tEXt", b"Comment\0" + b"x" * (size - len(start) - 20)))
    return start[:33] + rest + start[33:]


def animation(kind: str) -> bytes:
    """Two pictures in one file."""
    second = Image.new("RGB", (400, 400), "red")
    return write(draw(400, 400), kind, save_all=True, append_images=[second])


def _chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, data = chunk
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
