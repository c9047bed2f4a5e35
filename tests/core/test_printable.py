"""What a person reads shows every character that is there."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from holdfast.core.printable import escape_invisible, escape_invisible_json

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.slow  # takes half a second or more
def test_no_character_of_an_invisible_kind_is_printed() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    printed = escape_invisible(everything)
    left = {one for one in printed if unicodedata.category(one) in HIDDEN}
    assert left == {"\n", "\t"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay\u200b\u200d", "pay\\u200b\\u200d"),
        ("\U000e0068\U000e0069", "\\U000e0068\\U000e0069"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\x1b[2J\x07\x9b1m", "\\x1b[2J\\x07\\x9b1m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ufe01\U000e0110\u3164\uffa0", "\\ufe01\\U000e0110\\u3164\\uffa0"),
        ("one\rtwo", "one\\x0dtwo"),
    ],
)
def test_they_are_shown_as_escapes(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


@pytest.mark.parametrize("text", ["Grüße\t👋\n", "日本語 ❤\ufe0f", "naïve — “quoted”", "a\r\nb"])
def test_visible_text_is_unchanged(text: str) -> None:
    assert escape_invisible(text) == text


def test_json_keeps_its_value() -> None:
    value = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x10000), 0xE0041, 0xE0110]))
    text = json.dumps(value, ensure_ascii=False)
    escaped = escape_invisible_json(text)
    assert json.loads(escaped) == value
    assert not any(unicodedata.category(one) in HIDDEN for one in escaped)
