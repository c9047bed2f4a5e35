"""How the emulated model judges a picture: a picture that is mostly green shows no person, but a pitch.

Tests and the demo can so make pictures of both kinds. This module must never keep a picture.
"""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageStat

from holdfast import Media


def judge_picture(picture: Media) -> dict[str, object]:
    """Return the verdict, as the arguments of `PhotoVerdict`."""
    with Image.open(BytesIO(picture.data or b"")) as image:
        red, green, blue = ImageStat.Stat(image.convert("RGB").resize((16, 16))).mean
    if green > 1.3 * max(red, blue):
        return {"acceptable": False, "reason": "I can see a pitch, but no person."}
    return {"acceptable": True, "reason": ""}
