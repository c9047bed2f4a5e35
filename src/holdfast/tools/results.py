"""Converts the return value of a tool to the content that the model sees. The first matching rule applies:

1. A `str`, `Text` or `Media` stays as it is; None becomes "(no result)".
2. `bytes` become an image if they begin like a PNG, JPEG, GIF or WebP, text if they are UTF-8, and
   base64 with a note otherwise.
3. A list, tuple or generator of parts, strings and bytes, with at least one part or image among
   them, becomes these parts in order. A generator is read up to 10,000 items.
4. Everything else becomes JSON, as pydantic writes it: models, dataclasses, enums, dates, decimals,
   sets, msgspec structs, iterators, and objects with `tolist` (numpy). NaN and Infinity become the
   strings "NaN" and "Infinity"; bytes inside become base64.

The text of one result is cut at a limit, with a note that says how much is missing. A value without
a JSON form raises `ResultTypeError`; its `repr` is never shown, because it may hold secrets. Unpaired
surrogates are replaced, because they can be neither saved nor sent.
"""

from __future__ import annotations

import base64
import enum
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from holdfast.core.messages import Media, Text

RESULT_LIMIT = 100_000
"""The default limit for the text of one result, in characters."""
MOST_ITEMS = 10_000
"""The maximum number of items that are read from a generator."""
NO_RESULT = "(no result)"

Content = tuple[Text | Media, ...]


class ResultTypeError(TypeError):
    """The tool ran, but its return value cannot be shown to a model."""


def content_of(value: object, limit: int = RESULT_LIMIT) -> Content:
    r"""Convert the return value of a tool to content for the model.

    Args:
        value: the return value.
        limit: the maximum number of characters of text.

    Raises:
        ResultTypeError: the value has no JSON form.

    >>> content_of({"n": 1.5, "day": None})[0].text
    '{"n":1.5,"day":null}'
    >>> content_of("x" * 20, limit=8)[0].text
    'xxxxxxxx\n[cut: 12 of 20 characters are not shown]'
    """
    if type(value) is str:
        return (Text(cut_text(replace_surrogates(value), limit)),)
    if (part := _to_part(value)) is not None:
        return _cut_parts((part,), limit)
    if isinstance(value, list | tuple) and (parts := _parts_from_list(value)) is not None:
        return _cut_parts(parts, limit)
    return (Text(cut_text(_to_json(value), limit)),)


def output_content(value: object) -> Content:
    """Return the saved form of the return value of an output function: all of it, as JSON.

    A value without a JSON form is saved as nothing: only this process has it.

    >>> output_content("paid")[0].text, output_content(object())
    ('"paid"', ())
    """
    try:
        return (Text(_to_json(value)),)
    except ResultTypeError:
        return ()


def cut_text(text: str, limit: int) -> str:
    """Return the first `limit` characters, with a note if the text is longer."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit:,} of {len(text):,} characters are not shown]"


def replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _to_part(value: object) -> Text | Media | None:
    """Convert a value that is a single part; None for any other value."""
    if value is None:
        return Text(NO_RESULT)
    if isinstance(value, Media):
        return value
    if isinstance(value, Text):
        cleaned = replace_surrogates(value.text)
        return value if cleaned is value.text else msgspec.structs.replace(value, text=cleaned)
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return Text(replace_surrogates(str(value)))
    if isinstance(value, bytes | bytearray | memoryview):
        return _part_from_bytes(bytes(value))
    return None


def _part_from_bytes(data: bytes) -> Text | Media:
    if (media_type := image_type(data)) is not None:
        return Media(media_type, data=data)
    try:
        return Text(data.decode())
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        return Text(f"(binary data, {len(data):,} bytes, as base64) {encoded}")


def image_type(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes, or None.

    >>> image_type(b"GIF89a...")
    'image/gif'
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _parts_from_list(values: Iterable[object]) -> Content | None:
    """Return the parts of a list of parts; None for a list of data."""
    parts: list[Text | Media] = []
    shows_parts = False
    for value in values:
        if value is None or (part := _to_part(value)) is None:
            return None
        shows_parts = shows_parts or isinstance(value, Text) or isinstance(part, Media)
        parts.append(part)
    return tuple(parts) if shows_parts else None


def _cut_parts(parts: Content, limit: int) -> Content:
    """Cut the texts of one result, which share the limit; media are not cut."""
    cut_parts: list[Text | Media] = []
    for part in parts:
        if isinstance(part, Text):
            text = cut_text(part.text, max(limit, 0))
            limit -= len(part.text)
            same = text is part.text
            cut_parts.append(part if same else msgspec.structs.replace(part, text=text))
        else:
            cut_parts.append(part)
    return tuple(cut_parts)


def _to_json(value: object) -> str:
    # Already imported by the first tool.
    from pydantic_core import to_json

    try:
        data = to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=_to_plain)
        return data.decode()
    except Exception as error:  # REASON: serializers are the user's code
        if "surrogates not allowed" not in str(error):
            raise _no_json_form(value) from error
    return _without_surrogates(value)


def _without_surrogates(value: object) -> str:
    """Encode a value with unpaired surrogates (from file names that are not UTF-8), and replace them."""
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(
            value, inf_nan_mode="strings", bytes_mode="base64", fallback=_to_plain
        )
        return replace_surrogates(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))
    except Exception as error:  # REASON: as above
        raise _no_json_form(value) from error


def _no_json_form(value: object) -> ResultTypeError:
    return ResultTypeError(f"a result of type {type(value).__name__} has no JSON form")


def _to_plain(value: object) -> object:
    """Convert a value of a type that pydantic does not know."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range | Iterator):
        return list(islice(value, MOST_ITEMS))
    # Scalars and arrays of numpy and similar libraries.
    if callable(to_list := getattr(value, "tolist", None)) and not isinstance(value, type):
        return to_list()
    raise _no_json_form(value)
