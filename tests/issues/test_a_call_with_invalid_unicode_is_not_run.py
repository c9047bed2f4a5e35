"""Bytes that are not UTF-8 and halves of surrogate pairs became U+FFFD, and the tool ran with that.

A character that was cut between two reads is whole, and a U+FFFD that the provider sent is a
character like any other.
"""

from __future__ import annotations

import pytest
from tests.wire.raw_calls import WAYS, call_of, result_of, turn

from holdfast import tool

written: list[str] = []


@tool(effect="write")
def note(text: str) -> str:
    """Write a note."""
    written.append(text)
    return "written"


@pytest.fixture(autouse=True)
def _nothing_written() -> None:
    written.clear()


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize(
    "text", [b"caf\xff", b"caf\xc3", b"\xed\xa0\x80", b"\\ud83d", b"\\ude00\\ud83d"]
)
async def test_the_tool_is_not_run(way: tuple[str, str], text: bytes) -> None:
    result = await turn(way, b'{"text":"%b"}' % text, note)
    assert written == []
    told = result_of(result)
    assert told.is_error
    assert "Function 'note' was not run" in told.text
    assert call_of(result).name == "note"


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("café 😀".encode(), "café 😀"),
        (b"\\ud83d\\ude00", "😀"),
        ("a\ufffdb".encode(), "a\ufffdb"),
        (b"a\\ufffdb", "a\ufffdb"),
        (b"\\u001a", "\x1a"),
    ],
)
async def test_characters_that_are_whole_are_left_alone(
    way: tuple[str, str], text: bytes, meant: str
) -> None:
    result = await turn(way, b'{"text":"%b"}' % text, note)
    assert (written, result_of(result).text) == ([meant], "written")
