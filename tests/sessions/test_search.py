"""The index of a file makes a search faster, and finds the same messages."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.conversations import talk

from holdfast import MemoryJournal, SqliteJournal
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.journal.port import Journal
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock

LETTERS = st.sampled_from(
    [
        *"abAB019 .,:/%_!?*'\"\\\n\t{}[]",
        "é",
        "É",
        "ß",
        "漢",
        "字",
        "😀",
        "\x00",
        "\x9b",
        "\u2028",
        "\ud800",
    ]
)
TEXTS = st.lists(st.text(LETTERS, min_size=1, max_size=12), min_size=1, max_size=4)


async def places(journal: Journal, texts: list[str], wanted: str) -> list[str]:
    for number, text in enumerate(texts, 1):
        await journal.append("ada", TurnOpened(f"t{number}", float(number), user(text)))
    return [found.key for found in await Sessions(journal).search(wanted, limit=100)]


@pytest.mark.slow  # takes half a second or more
@given(TEXTS, st.data())
def test_a_file_finds_what_reading_everything_finds(texts: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text) - 1))
    wanted = data.draw(st.sampled_from([str.upper, str.lower, str]))(
        text[start : start + data.draw(st.integers(1, 6))]
    )
    if not wanted.strip():
        return
    found = asyncio.run(places(MemoryJournal(), texts, wanted))
    with tempfile.TemporaryDirectory() as folder, SqliteJournal(f"{folder}/talk.db") as journal:
        assert asyncio.run(places(journal, texts, wanted)) == found
    if wanted.lower() in text.lower():  # an upper ß is SS, which is two other letters
        assert f"t{texts.index(text) + 1}" in found or "".join(wanted.split()) != wanted


def test_deleted_text_is_removed_from_the_file() -> None:
    with tempfile.TemporaryDirectory() as folder, SqliteJournal(f"{folder}/talk.db") as journal:

        async def talk() -> None:
            await places(journal, ["my secret " * 300], "secret")
            await Sessions(journal).rename("ada", "a secret title")
            await Sessions(journal).delete("ada")

        asyncio.run(talk())
        for name in ("talk.db", "talk.db-wal"):
            assert b"secret" not in (Path(folder) / name).read_bytes()


async def test_runs_of_subagents_are_not_searched() -> None:
    journal, clock = MemoryJournal(), FakeClock()
    await talk(journal, clock, "ada", "a word")
    await talk(journal, clock, "ada/t1.i0.tool.0", "a word within")
    found = await Sessions(journal).search("word")
    assert {one.session for one in found} == {"ada"}
    assert [one.role for one in found] == ["assistant", "user"]
