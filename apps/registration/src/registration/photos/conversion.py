"""A program that reads a picture from its input and writes it to its output as a plain JPEG.

It decodes bytes that may be hostile, so it runs alone, under limits, and may be killed at any moment.
Its output is one line of JSON, and after it the picture if there is one. This module must never import
another part of the service.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from io import BytesIO
from typing import BinaryIO, Final

from PIL import Image, ImageOps, UnidentifiedImageError
from pillow_heif import register_heif_opener

FORMATS: Final = ("JPEG", "PNG", "WEBP", "HEIF")
MOST_PIXELS: Final = 64_000_000
LEAST_SIDE: Final = 300
MOST_RATIO: Final = 2
LONGEST_SIDE: Final = 1_600
QUALITY: Final = 90
LEAST_CONTRAST: Final = 10  # between the darkest and the brightest value of a channel

MEMORY: Final = 1_500_000_000  # bytes of addresses
CPU_SECONDS: Final = 20
NICE: Final = 10

TOO_LARGE: Final = (
    "the picture has more than 64 million pixels; please take it with the normal camera"
)
NOT_READABLE: Final = "the file is damaged or is no photo"
ANIMATED: Final = "it has more than one picture in it; please send a single photo"
TOO_SMALL: Final = "it is too small; it needs at least 300 pixels on each side"
TOO_LONG: Final = "it is too long and narrow; please send a photo in a usual shape"
BLANK: Final = "it shows only one colour; please take it again"


class Unusable(Exception):
    """The picture cannot be used; its text says why."""


def convert_picture(file: BinaryIO) -> bytes:
    """Return a picture as JPEG: upright, RGB, not larger than needed, and nothing but the picture.

    Args:
        file: the picture.

    Raises:
        Unusable: it is not a picture that can be used.
        MemoryError: it needs more memory than it may have.
    """
    try:
        with Image.open(file, formats=FORMATS) as image:
            _check_before_decoding(image)
            return _decode(image)
    except Unusable:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Unusable(TOO_LARGE) from None
    except MemoryError:
        raise
    except UnidentifiedImageError:
        raise Unusable(NOT_READABLE) from None
    except Exception:  # noqa: BLE001  # REASON: decoders raise any exception over damaged bytes
        raise Unusable(NOT_READABLE) from None


def _check_before_decoding(image: Image.Image) -> None:
    """Check the head of the file."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise Unusable(TOO_LARGE)
    # A JPEG of a phone may hold a second picture, of the depth or the light of the first.
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        raise Unusable(ANIMATED)
    if min(width, height) < LEAST_SIDE:
        raise Unusable(TOO_SMALL)
    if max(width, height) > MOST_RATIO * min(width, height):
        raise Unusable(TOO_LONG)


def _decode(image: Image.Image) -> bytes:
    image.draft("RGB", (2 * LONGEST_SIDE, 2 * LONGEST_SIDE))  # a JPEG is decoded at a fraction
    image.load()
    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    plain = Image.new("RGB", upright.size, "white")
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        plain.paste(layer, mask=layer)
    else:
        plain.paste(upright.convert("RGB"))
    _check_contrast(plain)
    written = BytesIO()
    # `plain` is a new picture: the position, the comments and the profile of the old one stay behind.
    plain.save(written, "JPEG", quality=QUALITY)
    return written.getvalue()


def _check_contrast(image: Image.Image) -> None:
    """Refuse a picture of one colour. It is made small first, which takes the noise away."""
    small = image.resize((32, 32), Image.Resampling.BOX)
    for band in small.split():
        values = band.tobytes()
        if max(values) - min(values) >= LEAST_CONTRAST:
            return
    raise Unusable(BLANK)


def limit_process() -> None:
    """Take from this process everything that a picture does not need; answers to parents come first."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Convert the picture at the input."""
    register_heif_opener(thumbnails=False)
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    limit_process()
    try:
        picture, refused = convert_picture(sys.stdin.buffer), None
    except Unusable as error:
        picture, refused = b"", str(error)
    except MemoryError:
        picture, refused = b"", TOO_LARGE
    head = {"refused": refused} if refused else {"size": len(picture)}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + picture)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
