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


def test_a_command_loads_only_what_it_needs() -> None:
    code = (
        "import sys; sys.argv = ['holdfast', 'run', 'run'];"
        "from holdfast.cli.main import main; status = main();"
        "assert status == 2, status;"
        "found = {'holdfast.testing', 'prompt_toolkit', 'rich', 'aiohttp'} & set(sys.modules);"
        "assert not found, found"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={}
    )
    assert done.returncode == 0, done.stderr
