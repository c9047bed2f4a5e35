"""Ctrl-C in `run_sync` gave the turn 50 ms to be closed, and a slow journal needs more."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, os, signal
from holdfast import Agent, MemoryJournal
from holdfast.core.events import TurnInterrupted
from holdfast.testing import ScriptedModel

class Slow(MemoryJournal):
    async def append(self, run, event, effect=None, *, marker=None):
        if isinstance(event, TurnInterrupted):
            await asyncio.sleep(0.3)
        await super().append(run, event, effect, marker=marker)

async def interrupted(request):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

journal = Slow()
try:
    Agent(ScriptedModel(interrupted), journal=journal).run_sync("Go.", session="s")
except KeyboardInterrupt:
    print([record.event.key for record in asyncio.run(journal.read("s"))])
"""


def test_before_the_script_goes_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.strip() == "['t1', 't1.interrupted', 't1.closed']", ended.stderr
    assert ended.stderr == ""


def test_also_before_it_waits() -> None:
    # The work begins, and is interrupted, before whoever asked for it has got anything to wait for.
    early = SCRIPT.replace(
        "journal = Slow()",
        "begin = asyncio.run_coroutine_threadsafe\n"
        "def slowly(work, loop):\n"
        "    asyncio.run_coroutine_threadsafe = begin\n"
        "    begin(work, loop)\n"
        "    __import__('time').sleep(60)\n"
        "asyncio.run_coroutine_threadsafe = slowly\n"
        "journal = Slow()",
    )
    assert early != SCRIPT
    ended = subprocess.run(
        [sys.executable, "-c", early], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.strip() == "['t1', 't1.interrupted', 't1.closed']", ended.stderr
    assert ended.stderr == ""
