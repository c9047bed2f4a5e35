"""Pictures become plain JPEGs in a process of their own; hostile ones end there."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from apps.registration.tests.photos import samples
from PIL import Image
from pillow_heif import register_heif_opener

from registration.http.uploads import recognise_picture
from registration.photos import conversion
from registration.photos.conversion import Unusable, convert_picture
from registration.photos.converter import ConversionFailed, ConvertedPicture, Converter

register_heif_opener()


def convert(data: bytes) -> Image.Image:
    return Image.open(BytesIO(convert_picture(BytesIO(data))))


def refusal(data: bytes) -> str:
    with pytest.raises(Unusable) as caught:
        convert_picture(BytesIO(data))
    return str(caught.value)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "HEIF"])
def test_each_kind_becomes_a_jpeg(kind: str) -> None:
    data = samples.write(samples.draw(1200, 2000), kind)
    assert recognise_picture(data[:32]) is not None
    image = convert(data)
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (960, 1600))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_each_mode_becomes_rgb(mode: str) -> None:
    image = samples.draw()
    image = image.convert("L").convert(mode) if mode == "I;16" else image.convert(mode)
    kind = "JPEG" if mode == "CMYK" else "PNG"
    assert convert(samples.write(image, kind)).mode == "RGB"


def test_the_place_is_removed_and_the_picture_is_turned() -> None:
    data = samples.photo_with_place()
    assert data.count(b"SECRET") >= 4
    converted = convert_picture(BytesIO(data))
    assert b"SECRET" not in converted
    image = Image.open(BytesIO(converted))
    assert image.size == (600, 800)
    assert not image.getexif()
    assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_a_small_picture_stays_as_large_as_it_is() -> None:
    assert convert(samples.write(samples.draw(300, 300))).size == (300, 300)


def test_what_cannot_be_used_is_refused_with_its_reason() -> None:
    plain = Image.new("RGB", (500, 500), (200, 180, 160))
    assert refusal(samples.write(samples.draw(299, 400))) == conversion.TOO_SMALL
    assert refusal(samples.write(samples.draw(300, 601))) == conversion.TOO_LONG
    assert refusal(samples.write(plain)) == conversion.BLANK
    assert refusal(samples.animation("WEBP")) == conversion.ANIMATED
    assert refusal(samples.animation("PNG")) == conversion.ANIMATED
    assert refusal(samples.bomb()) == conversion.TOO_LARGE
    assert refusal(samples.bomb(8_100, 8_000)) == conversion.TOO_LARGE
    assert refusal(b"GIF89a" + bytes(50)) == conversion.NOT_READABLE


def test_two_pictures_of_a_phone_are_one_photo() -> None:
    depth = Image.new("RGB", (300, 400), "gray")
    data = samples.write(samples.draw(), "MPO", save_all=True, append_images=[depth])
    assert recognise_picture(data[:32]) == "image/jpeg"
    assert convert(data).size == (600, 800)


def test_damaged_files_are_refused_and_nothing_else_is_raised() -> None:
    dice = random.Random(7)
    for kind in ("JPEG", "PNG", "WEBP", "HEIF"):
        data = samples.write(samples.draw(400, 400), kind)
        for _ in range(12):
            damaged = bytearray(data[: dice.randrange(len(data))])
            for _ in range(dice.randrange(6)):
                if damaged:
                    damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            with suppress(Unusable):
                convert_picture(BytesIO(bytes(damaged)))


def test_the_kind_is_told_by_the_content() -> None:
    assert recognise_picture(b"<svg xmlns=") is None
    assert recognise_picture(b"%PDF-1.7") is None
    assert recognise_picture(b"") is None
    assert recognise_picture(bytes.fromhex("0000001c") + b"ftypavif" + bytes(20)) is None
    brands = bytes.fromhex("0000001c") + b"ftypmif1" + bytes(4) + b"mif1heic"
    assert recognise_picture(brands) == "image/heic"


async def test_a_bomb_of_ten_megabytes_ends_in_its_own_process(tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(samples.full_bomb(9_999_000))
    began = time.monotonic()
    with file.open("rb") as opened:
        refused = await Converter().convert(opened)
    assert refused.reason == conversion.TOO_LARGE  # type: ignore[union-attr]
    assert time.monotonic() - began < 20


async def test_a_program_that_takes_too_long_is_killed_and_another_time_it_works(
    tmp_path: Path,
) -> None:
    file = tmp_path / "photo"
    file.write_bytes(samples.photo())
    with file.open("rb") as opened:
        with pytest.raises(ConversionFailed):
            await Converter(seconds=0.01).convert(opened)
        opened.seek(0)
        converted = await Converter().convert(opened)
    assert isinstance(converted, ConvertedPicture)
    assert repr(converted).startswith("ConvertedPicture(<")
