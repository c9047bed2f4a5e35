"""Drawn pictures: a portrait, and a pitch without a person."""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageDraw


def draw_portrait(place: int) -> bytes:
    """Return a JPEG of a face; of another one for each place."""
    image = Image.new("RGB", (480, 600), (205, 215, 235))
    draw = ImageDraw.Draw(image)
    shirt = (150 + 10 * place, 40, 60)
    draw.ellipse((60, 430, 420, 760), fill=shirt)
    draw.ellipse((130, 110, 350, 430), fill=(225, 180 - 6 * place, 150))
    draw.pieslice((120, 80, 360, 380), 180, 360, fill=(70, 45, 30))
    for left in (180, 260):
        draw.ellipse((left, 250, left + 36, 272), fill=(40, 40, 60))
    draw.arc((190, 300, 290, 380), 20, 160, fill=(150, 50, 50), width=8)
    return _encode(image)


def draw_pitch() -> bytes:
    """Return a JPEG of a pitch."""
    image = Image.new("RGB", (600, 480), (40, 140, 50))
    draw = ImageDraw.Draw(image)
    draw.rectangle((40, 40, 560, 440), outline=(240, 240, 240), width=6)
    draw.ellipse((230, 170, 370, 310), outline=(240, 240, 240), width=6)
    return _encode(image)


def _encode(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=88)
    return file.getvalue()
