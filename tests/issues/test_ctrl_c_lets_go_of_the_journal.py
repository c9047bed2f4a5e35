"""Ctrl-C in `holdfast chat` left the conversation in the log beside the file, and not in the file.

The program went without closing its journal. Whoever copied the file alone had an empty one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.terminal import HOLDFAST, environment

from holdfast.testing import Emulator

PATIENCE = 60
PRINTS = """
import sys
from holdfast.cli import emulate
from holdfast.cli.main import main

def interrupted(_):
    print("something")
    raise KeyboardInterrupt

emulate.main = interrupted
sys.exit(main())
"""


def test_the_file_alone_has_the_conversation(
    tmp_path: Path, emulator: Callable[..., Emulator]
) -> None:
    model = ("--model", "openai:demo", "--base-url", emulator().base_url)
    with subprocess.Popen(
        [HOLDFAST, "chat", *model, "--journal", f"sqlite:///{tmp_path / 'talk.db'}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(OPENAI_API_KEY="k"),
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"hello\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"You said: hello\n"
            process.send_signal(signal.SIGINT)
            status = process.wait(PATIENCE)  # its input stays open: nothing else ends it
            said = process.stderr.read() if process.stderr else None
        finally:
            process.kill()
    assert (status, said) == (130, b"")
    assert [file.name for file in tmp_path.iterdir()] == ["talk.db"]


def test_nobody_waits_for_a_reader() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as full:
        os.set_blocking(writing, False)
        while full.write(b" " * 1024):
            pass
        os.set_blocking(writing, True)
        done = subprocess.run(
            [sys.executable, "-c", PRINTS, "emulate"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED=""),
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (130, b"")
