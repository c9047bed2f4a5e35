"""Ctrl-C was a traceback while `holdfast` loaded its modules, and again while it ended.

At the question of `sessions delete` it was no end at all: a thread went on waiting for the line. And
`emulate` ended with 0, or with 130 when it had not begun to serve.
"""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import environment, interrupted, piped

from holdfast import Agent, SqliteJournal
from holdfast.cli import sessions_command
from holdfast.cli.main import main
from holdfast.testing import ScriptedModel

PATIENCE = 60
INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
BEGIN = "import atexit, os, signal, sys;"
END = "from holdfast.cli.main import main; sys.exit(main())"
AT_END = f"{BEGIN} atexit.register(lambda: {INTERRUPT}); {END}"
AT_IMPORT = f"""
{BEGIN}
class Finder:
    def find_spec(name, *_):
        if name == {{name!r}}:
            {INTERRUPT}
sys.meta_path.insert(0, Finder)
{END}
"""


def ended(code: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "name",
    ["argparse", "holdfast.cli.sessions_command", "holdfast.core.errors", "msgspec", "asyncio"],
)
def test_while_modules_are_loaded(name: str) -> None:
    assert ended(AT_IMPORT.format(name=name), "sessions", "list", "no.db") == (130, "", "")


def test_while_it_ends() -> None:
    status, out, margin = ended(AT_END, "--version")
    assert (status, margin) == (130, "")
    assert out.startswith("holdfast ")


def test_not_where_it_was_started_to_ignore_it() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {AT_END}"
    assert ended(ignoring, "--version")[0] == 0


@pytest.fixture
def path(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada"))
    return str(tmp_path / "talk.db")


def test_at_the_question_whether_to_delete(path: str) -> None:
    with piped("sessions", "delete", path, "ada") as process:
        assert process.stderr is not None
        said = b""
        while not said.endswith(b"Type yes: "):
            piece = process.stderr.read(1)
            assert piece, said
            said += piece
        assert interrupted(process) == (130, b"")
    assert main(["sessions", "show", path, "ada"]) == 0


class Interrupted(io.StringIO):
    def write(self, _: str) -> int:
        raise KeyboardInterrupt


def test_half_an_export_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ada.jsonl"

    def opened(path: Path, *_: str, **__: str) -> Interrupted:
        path.touch()
        return Interrupted()

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(KeyboardInterrupt):
        sessions_command._write_new(file, "x")
    assert not file.exists()
