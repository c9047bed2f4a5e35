"""The command itself: help, version, and the time to start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal, __version__
from holdfast.cli.main import COMMANDS, build_parser, main
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_is_there_and_ends_with_0(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: holdfast")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_every_command_can_be_parsed_alone_and_together() -> None:
    assert build_parser(["run"]).parse_args(["run", "hi"]).question == "hi"
    assert build_parser().parse_args(["demo"]).folder == "."


HEAVY = {
    "aiohttp",
    "asyncpg",
    "jsonschema",
    "opentelemetry",
    "prompt_toolkit",
    "pydantic",
    "pydantic_core",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
    "holdfast.testing",
}


def loaded_by(code: str) -> set[str]:
    """Return the modules of a new process after this code."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
        env={"HOLDFAST_MODEL": "ollama:m"},
        stdin=subprocess.DEVNULL,
    )
    return set(done.stderr.split())


def test_the_help_of_no_command_loads_the_runtime() -> None:
    code = (
        "from holdfast.cli.main import COMMANDS, main\n"
        "for words in ([], *([name] for name in COMMANDS)):\n"
        "    try:\n"
        "        main([*words, '--help'])\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
    )
    loaded = loaded_by(code)
    assert "holdfast.cli.schedules_command" in loaded
    assert not loaded & {
        *HEAVY,
        "asyncio",
        "ssl",
        "importlib.metadata",
        "holdfast.agent",
        "holdfast.runtime.engine",
    }


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("words", [["run", "--model", "nobody:m", "Hi"], ["chat"]])
def test_a_command_loads_only_what_it_needs(words: list[str]) -> None:
    loaded = loaded_by(f"from holdfast.cli.main import main; main({words!r})")
    assert "holdfast.agent" in loaded
    assert not loaded & (HEAVY - {"sqlite3"})


@pytest.mark.slow  # starts a program or a server
def test_a_run_without_the_file_of_an_agent_loads_no_reader_of_files() -> None:
    words = ["run", "--base-url", "http://127.0.0.1:1/v1", "--max-retries", "0", "Hi"]
    loaded = loaded_by(f"from holdfast.cli.main import main; assert main({words!r}) == 1")
    assert "aiohttp" in loaded
    assert not loaded & (HEAVY - {"sqlite3", "aiohttp"} | {"tomllib"})


# A command without a standard input.

PROGRAM = "import sys; from holdfast.cli.main import main; sys.exit(main())"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada"))
    return tmp_path / "talk.db"


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("words", [["delete", "PATH", "ada"], ["import", "PATH", "-"]])
def test_a_closed_standard_input_is_reported(path: Path, words: list[str]) -> None:
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
def test_a_wrong_count_is_reported_in_words(
    path: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    with pytest.raises(SystemExit):
        main(["sessions", "list", str(path), f"--limit={limit}"])
    assert "must be a whole number, and at least 1" in capsys.readouterr().err
