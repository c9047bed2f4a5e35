"""The command itself: help, version, and the time to start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast import __version__
from holdfast.cli.main import COMMANDS, build_parser, main


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


@pytest.mark.parametrize("words", [["run", "--model", "nobody:m", "Hi"], ["chat"]])
def test_a_command_loads_only_what_it_needs(words: list[str]) -> None:
    loaded = loaded_by(f"from holdfast.cli.main import main; main({words!r})")
    assert "holdfast.agent" in loaded
    assert not loaded & (HEAVY - {"sqlite3"})
