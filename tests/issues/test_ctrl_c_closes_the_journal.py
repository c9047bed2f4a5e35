"""Ctrl-C in `holdfast chat` left the conversation in the log beside the file, and not in the file.

The program went without closing its journal. Whoever copied the file alone had an empty one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.terminal import environment, interrupted, piped, told

from holdfast.testing import Emulator

PATIENCE = 60
PRINTS = """
import sys
from holdfast.cli import emulate_command
from holdfast.cli.main import main

def interrupted(_):
    print("something")
    raise KeyboardInterrupt

emulate_command.main = interrupted
sys.exit(main())
"""


def test_the_file_alone_has_the_conversation(
    tmp_path: Path, emulator: Callable[..., Emulator]
) -> None:
    model = ("--model", "openai:demo", "--base-url", emulator().base_url)
    file = f"sqlite:///{tmp_path / 'talk.db'}"
    with piped("chat", *model, "--journal", file) as process:
        assert told(process, b"hello\n") == b"You said: hello\n"
        assert interrupted(process) == (130, b"")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["talk.db", "talk.db.lock"]


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
