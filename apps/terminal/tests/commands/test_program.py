"""The program as a process: exit statuses, broken pipes, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.program import run_command

pytestmark = pytest.mark.slow  # starts processes

ADH = [sys.executable, "-m", "adh"]


def start(words: Sequence[str], home: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*ADH, *words],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_wrong_words_end_with_status_2(tmp_path: Path) -> None:
    with start(["fly"], tmp_path) as process:
        printed = process.communicate(timeout=30)
    assert process.returncode == 2
    assert printed[0] == ""
    assert "invalid choice: 'fly'" in printed[1]


def test_a_closed_output_is_status_141_without_a_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [*ADH, "config"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 141


def test_ctrl_c_is_status_130_without_a_traceback(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "from adh.commands import log_command, program\n"
        "def wait(args):\n"
        "    print('ready', flush=True)\n"
        "    while True: signal.pause()\n"
        "log_command.main = wait\n"
        "sys.exit(program.run_program(['log']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=30)
    assert process.returncode == 130
    assert printed == ("", "")


def test_debug_prints_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run_command(parse_arguments(["--debug", "config", "set", "x", "y"])) == 2
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "adh: x is no setting" in printed
