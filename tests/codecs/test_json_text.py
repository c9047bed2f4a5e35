"""JSON that is not as it should be, and what must stay unreadable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.json_text import UNREADABLE, dump_json, json_kind, read_json, read_strict_json


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'"a\tb"', "a\tb"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\ude00\\ud83d"', "\ufffd\ufffd"),
        (b'"\\\\ud83d \\ud83d"', "\\ud83d \ufffd"),
        (b'"caf\xc3"', "caf\ufffd"),
        (b"[1e999]", [float("inf")]),
    ],
)
def test_what_can_be_trusted_is_read(data: bytes, value: object) -> None:
    assert read_json(data) == value


@pytest.mark.parametrize("data", [b"", b"{", b'{"a": "b', b"{} {}", b"nope", b"[" * 100_000])
def test_what_is_cut_or_no_json_is_never_completed(data: bytes) -> None:
    assert read_json(data) is UNREADABLE
    assert read_strict_json(data.decode()) is UNREADABLE


def test_arguments_are_read_strictly() -> None:
    assert read_strict_json('{"a": 1}') == {"a": 1}
    for text in ('{"a": NaN}', '"a\tb"', "{'a': 1}", '{"a": 1,}'):
        assert read_strict_json(text) is UNREADABLE


@given(st.binary(max_size=100))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    value = read_json(data)
    if value is not UNREADABLE:
        dump_json(value).encode()
        assert json_kind(value) in ("null", "boolean", "string", "number", "array", "object")


def test_text_of_values() -> None:
    assert json.loads(dump_json({"a": [1, "é"]})) == {"a": [1, "é"]}
    assert dump_json(float("nan")) == "null"
