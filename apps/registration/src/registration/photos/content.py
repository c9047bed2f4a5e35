"""The kind of a picture, told by its first bytes. Names and headers are the client's word alone."""

from __future__ import annotations

from typing import Final

NEEDED: Final = 32  # bytes that tell the kind

# The brands of ISO files that hold HEVC pictures; `mif1` and `msf1` name the container alone.
_HEIC_BRANDS: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"})
_CONTAINER_BRANDS: Final = frozenset({b"mif1", b"msf1"})


def recognise_picture(beginning: bytes) -> str | None:
    """Return the media type of a picture that is accepted, or None.

    Args:
        beginning: the first `NEEDED` bytes, or all there are.

    >>> recognise_picture(bytes.fromhex("ffd8ffe000104a464946"))
    'image/jpeg'
    >>> recognise_picture(b"GIF89a")
    """
    if beginning.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    if beginning[4:8] == b"ftyp" and _holds_heic(beginning):
        return "image/heic"
    return None


def _holds_heic(beginning: bytes) -> bool:
    """Return whether the brands of an ISO file say HEIC."""
    major = beginning[8:12]
    end = min(int.from_bytes(beginning[:4]), len(beginning))
    others = {beginning[at : at + 4] for at in range(16, end - 3, 4)}
    return major in _HEIC_BRANDS or (
        major in _CONTAINER_BRANDS and not others.isdisjoint(_HEIC_BRANDS | {b"MiHE"})
    )
