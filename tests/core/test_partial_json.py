"""Partial JSON: a correct prefix of the value, whatever the chunks, at linear cost."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_output_parser import CONTAINERS, PROSE
from tests.linear import is_linear

from holdfast.core.partial_json import PartialJson, parse_partial_json


def fed(*pieces: str) -> PartialJson:
    partial = PartialJson()
    for piece in pieces:
        partial.feed(piece)
    return partial


def goes_on(early: object, late: object) -> bool:
    """Whether the later value extends the earlier one."""
    if isinstance(early, dict) and isinstance(late, dict):
        return all(key in late and goes_on(value, late[key]) for key, value in early.items())
    if isinstance(early, list) and isinstance(late, list):
        pairs = zip(early, late, strict=False)
        return len(early) <= len(late) and all(goes_on(one, other) for one, other in pairs)
    if isinstance(early, str) and isinstance(late, str):
        return late.startswith(early)
    return early == late


@given(CONTAINERS, PROSE, st.booleans(), st.data())
def test_the_value_does_not_depend_on_the_chunks(
    value: object, prose: str, ascii_only: bool, data: st.DataObject
) -> None:
    text = prose + json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    partial = fed(*(text[a:b] for a, b in pairwise(edges)))
    assert partial.is_complete
    assert partial.value == value


@given(CONTAINERS, st.booleans())
def test_the_value_only_grows_and_each_character_is_read_once(
    value: object, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    partial = PartialJson()
    for at, character in enumerate(text):
        partial.feed(character)
        assert goes_on(partial.value if partial.value is not None else value, value)
        assert partial.characters_read <= at + 1
    assert partial.value == value
    assert partial.characters_read == len(text)


@given(st.text(alphabet='[]{}":,`\\ \n1aeut-', max_size=120))
def test_no_text_raises_and_no_character_is_read_twice(text: str) -> None:
    partial = fed(*text)
    assert partial.characters_read <= len(text)


def test_a_repeated_key_takes_the_last_value() -> None:
    assert parse_partial_json('{"a": [1], "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("words", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": "', {"a": ""}),
        ('{"a": "b\\', {"a": "b"}),
        ('{"a": "b\\u00', {"a": "b"}),
        ('{"a": "b\\ud83d\\ud', {"a": "b"}),
        ('{"a": 12', {}),
        ('{"a": tru', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": [', {"a": []}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ('[see] {"a": 1}', {"a": 1}),
    ],
)
def test_incomplete_numbers_and_words_are_not_shown(text: str, value: object) -> None:
    assert parse_partial_json(text) == value


def test_deep_nesting_stops_the_parser_without_a_crash() -> None:
    assert parse_partial_json("[" * 5_000_000) is not None
    assert fed("[" * 1000).is_complete


def seconds_for(length: int) -> float:
    text = '{"text": "' + "word " * (length // 5) + '"}'
    begin = time.process_time()
    partial = PartialJson()
    for at in range(0, len(text), 4):
        partial.feed(text[at : at + 4])
    return time.process_time() - begin


def test_the_cost_is_linear_in_the_length() -> None:
    assert is_linear(seconds_for, 40_000, 400_000, slack=4)
