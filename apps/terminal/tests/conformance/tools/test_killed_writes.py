"""Processes that are killed at any instant while they write: what is there is always whole and recorded."""

import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adh.storage.audit_log import AuditLog
from adh.storage.changes import ChangeStore
from adh.storage.file_undo import plan_undo, undo_changes
from adh.storage.pending_writes import PendingWrites

ROOT = Path(__file__).parents[5]
KILLS = 300 if os.environ.get("HOLDFAST_FULL") else 12

WRITER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from apps.terminal.tests.tools.workbench import Workbench
bench = Workbench(Path(sys.argv[1]), exist_ok=True)
async def main():
    print("ready", flush=True)
    for number in range(1_000_000):
        content = f"{number}\\n" * 20_000
        await bench.call_json("write_file", file_path=f"x/{number % 3}", content=content)
        print(number, flush=True)
asyncio.run(main())
"""

LOGGER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from adh.storage.audit_log import AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]) / "audit.log")
print("ready", flush=True)
for number in range(1_000_000):
    log.write(AuditEntry(at=datetime.now(UTC), event="outcome", call=str(number), result="x" * 200))
    print(number, flush=True)
"""


def run_and_kill(program: str, folder: Path, seconds: float) -> int:
    """Runs a program for a time, kills it, and returns the last number that it printed, or -1."""
    command = [sys.executable, "-c", program, str(folder), str(ROOT)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.kill()
        printed = process.stdout.read().split("\n")[:-1]
    return int(printed[-1]) if printed else -1


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_file_is_whole_and_its_change_can_be_undone(tmp_path: Path, kill: int) -> None:
    project = tmp_path / "project"
    (project / "x").mkdir(parents=True)
    (project / "x" / "0").write_text("of the person")
    last = run_and_kill(WRITER, tmp_path, random.Random(kill).uniform(0.0, 0.3))
    written = set()
    for path in project.glob("x/[012]"):
        lines = set(path.read_text().splitlines())
        assert len(lines) == 1
        if lines != {"of the person"}:
            assert path.stat().st_size == len(next(iter(lines)) + "\n") * 20_000
            written |= {int(line) for line in lines}
    # What was told is there; the one write that was going on may be there.
    wanted = set(range(max(last - 2, 0), last + 1))
    assert written in (wanted, {*wanted, last + 1}, {*wanted, last + 1} - {last - 2})
    PendingWrites(tmp_path / "pending").remove_leftovers()
    assert not list(project.glob("**/.adh-*"))
    store = ChangeStore(tmp_path / "changes")
    plan = plan_undo(store, "s", 1)
    assert plan.conflicts == ()
    undo_changes(store, PendingWrites(tmp_path / "pending"), plan, datetime.now(UTC))
    assert [path.read_text() for path in project.glob("x/*")] == ["of the person"]


@pytest.mark.parametrize("kill", range(KILLS))
def test_every_line_that_was_acknowledged_is_in_the_log(tmp_path: Path, kill: int) -> None:
    acknowledged = 0
    for part in range(2):
        last = run_and_kill(LOGGER, tmp_path, random.Random(kill + part).uniform(0.0, 0.1))
        acknowledged += last + 1
        found = [int(entry.call) for entry in AuditLog(tmp_path / "audit.log").read()]
        # The line that was being written at each kill may be there too.
        assert acknowledged <= len(found) <= acknowledged + part + 1
        assert set(range(last + 1)) <= set(found)
