"""A SQLite journal did not open on Windows, where `os` has no O_CLOEXEC.

The process here has what Windows has: no flags of Unix, no `fcntl`, no fork, and a `msvcrt`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, pathlib, platform, random, select, signal
import shutil, socket, sqlite3, ssl, subprocess, sys, tempfile, threading, types, uuid
import msgspec
from urllib.request import getproxies

locked = []

def locking(descriptor, mode, count):
    locked.append((mode, os.lseek(descriptor, 0, os.SEEK_CUR), count))

for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "fork", "register_at_fork"):
    delattr(os, name)
sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
sys.platform = "win32"

from holdfast import Agent
from holdfast.testing import ScriptedModel
from holdfast.journal import SqliteJournal

for answer in ("one", "two"):
    with SqliteJournal(sys.argv[1]) as journal:
        agent = Agent(ScriptedModel(answer), journal=journal)
        result = asyncio.run(agent.run("go", session="ada"))
        print(len(result.messages), result.output)
print(locked)
"""


def test_a_journal_opens_where_unix_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "talk.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    first, second, locked = done.stdout.splitlines()
    assert (first, second) == ("2 one", "4 two")
    assert locked == str([(2, 4096, 1), (0, 4096, 1)] * 2)
