"""`holdfast sessions delete` and `import -` without a standard input ended with a traceback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.testing import ScriptedModel

PROGRAM = "import sys; from holdfast.cli.main import main; sys.exit(main())"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada"))
    return tmp_path / "talk.db"


@pytest.mark.parametrize("words", [["delete", "PATH", "ada"], ["import", "PATH", "-"]])
def test_it_says_what_is_missing(path: Path, words: list[str]) -> None:
    given = [str(path) if word == "PATH" else word for word in words]
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", PROGRAM, "sessions", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "standard input: is closed. Open it, for example with < /dev/null"
    )
    assert main(["sessions", "show", str(path), "ada"]) == 0


def test_the_file_that_cannot_be_read_is_named(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.main._discard_output", lambda: None)
    assert main(["sessions", "import", str(path), str(path.parent)]) == 1
    assert capsys.readouterr().err == f"holdfast: Is a directory: {path.parent}\n"


@pytest.mark.parametrize("limit", ["x", "0", "-1", "1.5"])
def test_a_wrong_count_is_told_in_words(
    path: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    with pytest.raises(SystemExit):
        main(["sessions", "list", str(path), f"--limit={limit}"])
    assert "must be a whole number, and at least 1" in capsys.readouterr().err
