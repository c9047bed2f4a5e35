"""The lenient JSON reader repairs small mistakes and invents nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_output_parser import ANY, CONTAINERS

from holdfast.core.output import Invalid, Valid
from holdfast.core.output_parser import NotReadable, parse_output, read_leniently


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2, ]", [1, 2]),
        ("{'a': 'it\\'s', \"b\": None}", {"a": "it's", "b": None}),
        ("{a: True, b_1: false}", {"a": True, "b_1": False}),
        ("{\u201ca\u201d: \u201cb\u201d}", {"a": "b"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": 1, // one\n "b": 2 /* two */ # three\n}', {"a": 1, "b": 2}),
        ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}),
        ('{"a": "\\u00e4\\ud83d\\ude00\\n",}', {"a": "ä😀\n"}),
        ("```json\n{'a': 1,}\n```\nThat is it.", {"a": 1}),
        ("So {'a': -1.5e3} it is", {"a": -1500.0}),
    ],
)
def test_small_mistakes_are_repaired(text: str, value: object) -> None:
    assert read_leniently(text) == value
    assert parse_output(text, ANY, lenient=True) == Valid(value, "repaired")
    assert isinstance(parse_output(text, ANY), Invalid)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no bracket",
        "{'a': 'no end",
        "{'a' 1}",
        "{'a': 1 'b': 2}",
        "{'a': }",
        "{'a'",
        "{'a': 1, 'a': 2}",
        "{'a': 1} or {'a': 2}",
        "{'a': yes}",
        "{'a': 1e999}",
        "{'a': 01}",
        "[1]]",
        "[" * 5000,
        '{"a": "\\u12"}',
    ],
)
def test_ambiguous_text_is_refused(text: str) -> None:
    with pytest.raises(NotReadable):
        read_leniently(text)


@given(CONTAINERS)
def test_valid_json_is_unchanged(value: object) -> None:
    assert read_leniently(json.dumps(value)) == value


@given(CONTAINERS, st.data())
def test_a_cut_text_is_never_valid_without_repair(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert isinstance(parse_output(cut, ANY), Invalid)
