"""An export was cut at characters that end lines elsewhere, and damaged where the terminal is no UTF-8."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.run_printer import make_printable
from holdfast.cli.sessions_command import _write_new
from holdfast.core.events import TurnOpened
from holdfast.journal.encoding import decode
from holdfast.testing import ScriptedModel
from holdfast.testing.recording import load_recording

ODD = "Olá \u2028 \x85 \u202e ☃ \U0001f9ff"
PROGRAM = "import sys; from holdfast.cli.main import main; sys.exit(main())"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def talk() -> None:
        with SqliteJournal(tmp_path / "talk.db") as journal:
            agent = Agent(ScriptedModel(ODD), journal=journal)
            await agent.run(ODD, session="ada")
            await agent.sessions.rename("ada", "A title beside it")

    asyncio.run(talk())
    return tmp_path / "talk.db"


def holdfast(*words: object, encoding: str = "utf-8") -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_is_printed_is_read_again(path: Path, tmp_path: Path, encoding: str) -> None:
    lines, other = tmp_path / "ada.jsonl", tmp_path / "other.db"
    lines.write_bytes(holdfast("sessions", "export", path, "ada", encoding=encoding))
    assert holdfast("sessions", "import", other, lines, encoding=encoding).split() == [b"ada"]
    assert ODD in str(asyncio.run(load_recording(other)).records[0].event.message.text)  # type: ignore[union-attr]
    for words in (("journal", "export", path, "ada"), ("replay", "--json", path)):
        found = holdfast(*words, encoding=encoding).decode()
        assert "Olá" in found
        assert "☃" in found


@pytest.mark.parametrize("word", ["sessions", "journal"])
def test_a_recording_may_hold_what_ends_lines_elsewhere(
    path: Path, tmp_path: Path, word: str
) -> None:
    lines = tmp_path / "ada.jsonl"
    text = holdfast(word, "export", path, "ada").decode()
    assert len(text.splitlines()) == text.count("\n")
    for escaped in (True, False):
        if not escaped and word == "journal":  # as it was written before it was escaped
            text = text.replace("\\u2028", "\u2028")
        lines.write_text(text, "utf-8")
        (opened, *_) = asyncio.run(load_recording(lines)).records
        assert isinstance(opened.event, TurnOpened)
        assert opened.event.message.text == ODD
    assert decode(text.split("\n")[0]).run == "ada"


def test_the_only_session_is_played_whatever_stands_beside_it(path: Path) -> None:
    assert asyncio.run(load_recording(path)).run == "ada"


def test_a_name_in_an_export_is_no_command_to_a_terminal(tmp_path: Path) -> None:
    name = "ada\x1b]0;mine\x07\u202e"
    db, lines = tmp_path / "talk.db", tmp_path / "ada.jsonl"
    with SqliteJournal(db) as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session=name))
    lines.write_bytes(holdfast("sessions", "export", db, name))
    out = holdfast("sessions", "import", tmp_path / "other.db", lines)
    assert out.decode() == "ada\\x1b]0;mine\\x07\\u202e\n"
    out = holdfast("sessions", "fork", db, name, "--to", "b\x1bob")
    assert out.decode() == "b\\x1bob\n"


def test_what_turns_the_direction_of_a_text_is_shown_and_not_obeyed() -> None:
    assert make_printable("pay \u202e01\u2066x\u2069") == "pay \\u202e01\\u2066x\\u2069"
    assert make_printable("שלום \u200f") == "שלום \\u200f"


def test_half_a_file_is_not_left_when_the_disk_is_full(tmp_path: Path) -> None:
    file = tmp_path / "ada.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            _write_new(file, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not file.exists()
    _write_new(file, "x")
    assert file.read_text() == "x"
