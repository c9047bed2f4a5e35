"""What a returned value becomes."""

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer

from holdfast.core.messages import Media, Text
from holdfast.tools.results import ResultTypeError, content_of, cut_text, replace_surrogates

PNG = b"\x89PNG\r\n\x1a\n rest"
IMAGES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    HI = "hi"


class Model(BaseModel):
    n: int
    day: dt.date


@dataclasses.dataclass
class Data:
    n: int


class Record(msgspec.Struct):
    n: int


class ArrayLike:
    def tolist(self) -> list[int]:
        return [1, 2]


class Shy:
    def __repr__(self) -> str:
        return "password=hunter2"


class Faulty(BaseModel):
    n: int

    @field_serializer("n")
    def fail(self, value: int) -> int:
        raise RuntimeError("password=hunter2")


def text_of(value: object, limit: int = 100_000) -> str:
    (part,) = content_of(value, limit)
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "(no result)"),
        (Text("a part"), "a part"),
        (b"bytes", "bytes"),
        (bytearray(b"bytes"), "bytes"),
        (memoryview(b"bytes"), "bytes"),
        (b"\xff\x00", "(binary data, 2 bytes, as base64) /wA="),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        ([], "[]"),
        ({}, "{}"),
        (["a", "b"], '["a","b"]'),
        ((1, None), "[1,null]"),
        ({"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        ({1: "x", None: "y"}, '{"1":"x","None":"y"}'),
        ({4}, "[4]"),
        (Model(n=1, day=dt.date(2024, 2, 29)), '{"n":1,"day":"2024-02-29"}'),
        ([Data(1)], '[{"n":1}]'),
        ({"r": Record(1)}, '{"r":{"n":1}}'),
        (Colour.RED, '"red"'),
        (Word.HI, '"hi"'),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), '"2024-01-01T00:00:00Z"'),
        (dt.timedelta(minutes=1), '"PT1M"'),
        (decimal.Decimal("1.50"), '"1.50"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (pathlib.PurePosixPath("/a"), '"/a"'),
        (range(3), "[0,1,2]"),
        (map(str, [1, 2]), '["1","2"]'),
        (ArrayLike(), "[1,2]"),
        ({"a": b"\xff"}, '{"a":"_w=="}'),
        ([float("nan"), float("inf"), -float("inf")], '["NaN","Infinity","-Infinity"]'),
        ("é", "é"),
        ({"é": "ü"}, '{"é":"ü"}'),
    ],
)
def test_the_rule(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("media_type", IMAGES)
def test_images_are_known_by_their_first_bytes(media_type: str) -> None:
    data = IMAGES[media_type]
    assert content_of(data) == (Media(media_type, data=data),)


def test_lists_of_parts_are_parts() -> None:
    link = Media("image/png", url="https://example.org/a.png")
    assert content_of(["see:", link, PNG]) == (Text("see:"), link, Media("image/png", data=PNG))
    assert content_of((Text("a"), "b")) == (Text("a"), Text("b"))
    assert content_of([link]) == (link,)


def test_a_list_of_data_with_a_part_in_it_is_an_error_and_no_repr() -> None:
    assert "Media" not in text_of([{"a": 1}, "b"])
    assert text_of([1, Text("b")]).startswith("[1,")


def test_five_megabytes_are_cut_with_a_note() -> None:
    text = text_of("x" * 5_000_000)
    assert text.startswith("x" * 100_000 + "\n[cut: ")
    assert text.endswith("[cut: 4,900,000 of 5,000,000 characters are not shown]")
    assert len(text) < 100_100
    assert len(text_of(list(range(1_000_000)))) < 100_100
    assert len(text_of(b"x" * 5_000_000)) < 100_100
    assert len(text_of(b"\xff" * 5_000_000)) < 100_100


def test_the_limit_counts_over_all_parts() -> None:
    parts = content_of([Text("a" * 6), Text("b" * 6), Text("c" * 6)], limit=8)
    assert [part.text for part in parts if isinstance(part, Text)] == [
        "aaaaaa",
        "bb\n[cut: 4 of 6 characters are not shown]",
        "\n[cut: 6 of 6 characters are not shown]",
    ]


def loop() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(5_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [Shy(), {"a": [Shy()]}, loop(), deep(), Faulty(n=1), Shy, print, object(), {"\ud800": 1}],
)
def test_what_has_no_json_form_is_a_typed_error_without_its_repr(value: object) -> None:
    with pytest.raises(ResultTypeError) as caught:
        content_of(value)
    assert "hunter2" not in str(caught.value)
    assert "has no JSON form" in str(caught.value)


def test_lone_surrogates_are_replaced() -> None:
    for value in ("a\ud800b", ["a\ud800b"], Text("\ud800")):
        text = text_of(value)
        text.encode()
        assert "\ufffd" in text or "?" in text
    assert replace_surrogates("é\ud83d\ude00") == "é😀"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=10,
    )
)
def test_any_plain_value_has_a_form_that_can_be_sent(value: object) -> None:
    msgspec.json.encode(content_of(value))


@given(st.text(st.characters()), st.integers(1, 20))
def test_what_is_cut_is_the_beginning(text: str, limit: int) -> None:
    shown = cut_text(text, limit)
    assert shown.startswith(text[:limit])
    assert (shown == text) == (len(text) <= limit)


def test_json_stays_json() -> None:
    value = {"a": [1, "x", None, True]}
    assert json.loads(text_of(value)) == value
