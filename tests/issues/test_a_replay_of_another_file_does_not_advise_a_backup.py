"""`holdfast replay README.md` said that line 1 was damaged, and to restore it from a backup."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import Agent, SqliteJournal
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize(
    "content",
    [b"# Holdfast\n\nAn introduction.\n", b'{"openapi": "3.1.0"}\n', b"[1]\n", b"\x89PNG\r\n\xff"],
)
def test_a_file_that_is_no_journal_is_named_as_that(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    done = holdfast("replay", str(file))
    assert done.returncode == 1
    assert done.stderr == (
        f"holdfast: journal {file}: is neither a journal nor an export of one. Pass the file of a"
        " journal, or what `holdfast journal export` printed\n"
    )


@pytest.mark.parametrize("words", [("sessions", "export"), ("journal", "export")])
def test_a_damaged_line_of_an_export_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    path, file = tmp_path / "talk.db", tmp_path / "export"
    with SqliteJournal(path) as journal:
        Agent(ScriptedModel("Hello!"), journal=journal).run_sync("Hi.", session="ada")
    exported = holdfast(*words, str(path), "ada")
    assert exported.returncode == 0, exported.stderr
    file.write_text(exported.stdout)
    assert holdfast("replay", str(file)).returncode == 0
    file.write_text("damaged" + exported.stdout)
    done = holdfast("replay", str(file))
    assert done.returncode != 0
    assert "line 1" in done.stderr
    assert "backup" in done.stderr
